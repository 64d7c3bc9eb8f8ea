"""Generation of one sequence by llama.cpp on the processor, for `go run ./bench generate`, as one JSON line.

    peer_llama.py version
    peer_llama.py generate --model FILE.gguf [--threads N] [--prompt_tokens N] [--new_tokens N]

Options are llama.cpp's defaults. A first token after the same prompt is a warm-up. An error is one line on the standard
error, and the exit status is 1.
"""
import argparse
import importlib.metadata
import json
import statistics
import sys
import time


def prompt_ids(count, vocab):
    """The prompt of `trireme bench generate`."""
    return [(i * 7919 + 13) % vocab for i in range(count)]


def peak_mib():
    try:
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmHWM:"))
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)


def generate(a):
    from cyllama.llama import llama_cpp

    class Model(llama_cpp.LlamaModel):
        """cyllama 0.2.18 reads n_vocab of its models, which have none."""

        n_vocab = property(lambda self: self.get_vocab().n_vocab)

    llama_cpp.disable_logging()
    llama_cpp.llama_backend_init()
    p = llama_cpp.LlamaModelParams()
    p.n_gpu_layers = 0
    model = Model(a.model, p)
    vocab = model.n_vocab
    ids = prompt_ids(a.prompt_tokens, vocab)
    for count in (1, a.new_tokens):
        p = llama_cpp.LlamaContextParams()
        p.n_ctx = p.n_batch = a.prompt_tokens + a.new_tokens
        p.n_threads = p.n_threads_batch = a.threads
        context = llama_cpp.LlamaContext(model, p)
        sampler = llama_cpp.LlamaSampler(llama_cpp.LlamaSamplerChainParams())
        sampler.add_greedy()
        batch = llama_cpp.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
        for at, i in enumerate(ids):
            batch.add(i, at, [0], at == len(ids) - 1)
        times, tokens, last = [], [], time.perf_counter()
        for at in range(len(ids), len(ids) + count):
            context.decode(batch)
            tokens.append(sampler.sample(context, -1))
            now = time.perf_counter()
            times.append(now - last)
            last = now
            batch = llama_cpp.LlamaBatch(n_tokens=1, embd=0, n_seq_max=1)
            batch.add(tokens[-1], at, [0], True)
    return {"prompt_tokens_per_s": len(ids) / times[0], "tokens_per_s": 1 / statistics.median(times[1:]), "rss_mib": peak_mib(), "tokens": tokens}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["version", "generate"])
    p.add_argument("--model", help="GGUF file")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--prompt_tokens", type=int, default=512)
    p.add_argument("--new_tokens", type=int, default=64)
    a = p.parse_args()
    try:
        if a.what == "version":
            import cyllama.llama.llama_cpp  # noqa: F401

            result = {"cyllama": importlib.metadata.version("cyllama")}
        else:
            result = generate(a)
        print(json.dumps(result), flush=True)
        return 0
    except Exception as e:
        lines = str(e).strip().splitlines() or [""]
        print("%s: %s" % (type(e).__name__, lines[0]), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
