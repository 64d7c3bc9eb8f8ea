"""Trains and measures Hugging Face's tokenizers for `go run ./bench tokenize`.

    peer_tokenize.py version
    peer_tokenize.py train --texts FILE ... --output DIR
    peer_tokenize.py encode --tokenizer FILE --texts FILE --seconds S --ids FILE

A file of texts has a JSON string per line. train writes a NAME/tokenizer.json for each kind of tokenizer. encode
prints a JSON line with megabytes per second of processor time, and writes the ids: for each text their number, then they,
as 32-bit integers. An error is one line on the standard error, and the exit status is 1.
"""
import argparse
import array
import json
import os
import statistics
import sys
import time

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN2 = LLAMA3.replace("{1,3}", "")


def read(files):
    out = []
    for name in files:
        with open(name, encoding="utf-8") as f:
            out += [json.loads(line) for line in f]
    return out


def train(texts, output):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    def byte_level(pattern, normalizer=None):
        t = Tokenizer(models.BPE())
        if normalizer:
            t.normalizer = normalizer
        t.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        t.decoder = decoders.ByteLevel()
        return t, trainers.BpeTrainer(
            vocab_size=32000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False
        )

    def bert():
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer()
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        return t, trainers.WordPieceTrainer(vocab_size=30000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)

    def unigram():
        t = Tokenizer(models.Unigram())
        t.normalizer = normalizers.NFKC()
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        t.decoder = decoders.Metaspace()
        return t, trainers.UnigramTrainer(vocab_size=8000, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)

    kinds = {
        "bert": bert,
        "gpt2": lambda: byte_level(GPT2),
        "llama3": lambda: byte_level(LLAMA3),
        "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
        "unigram": unigram,
    }
    for name, make in kinds.items():
        t, trainer = make()
        t.train_from_iterator(texts, trainer)
        os.makedirs(os.path.join(output, name))
        t.save(os.path.join(output, name, "tokenizer.json"))
    return {"tokenizers": sorted(kinds)}


def encode(tokenizer, texts, seconds, ids):
    from tokenizers import Tokenizer

    t = Tokenizer.from_file(tokenizer)
    once = getattr(t, "encode_batch_fast", t.encode_batch)  # without offsets, from 0.20
    megabytes = sum(len(x.encode()) for x in texts) / 1e6
    batches = [texts[i : i + 64] for i in range(0, len(texts), 64)]
    speeds, ends = [], time.monotonic() + seconds
    while len(speeds) < 3 or time.monotonic() < ends:
        spent = 0
        for b in batches:
            began = time.process_time_ns()
            encoded = once(b, add_special_tokens=False)
            spent += time.process_time_ns() - began
        speeds.append(megabytes / (spent / 1e9))
    with open(ids, "wb") as f:
        for b in batches:
            for e in once(b, add_special_tokens=False):
                array.array("i", [len(e.ids)] + e.ids).tofile(f)
    return {"first_mb_per_s": speeds[0], "mb_per_s": statistics.median(speeds[1:])}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["version", "train", "encode"])
    p.add_argument("--texts", nargs="+")
    p.add_argument("--output")
    p.add_argument("--tokenizer")
    p.add_argument("--seconds", type=float)
    p.add_argument("--ids")
    a = p.parse_args()
    try:
        import tokenizers

        result = {"tokenizers": tokenizers.__version__}
        if a.what == "train":
            result = train(read(a.texts)[::8], a.output)  # the unigram trainer needs minutes for more
        elif a.what == "encode":
            result = encode(a.tokenizer, read(a.texts), a.seconds, a.ids)
        print(json.dumps(result), flush=True)
        return 0
    except Exception as e:
        lines = str(e).strip().splitlines() or [""]
        print("%s: %s" % (type(e).__name__, lines[0]), file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
