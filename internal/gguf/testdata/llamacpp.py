"""Reads GGUF files with llama.cpp's own reader (gguf) and with a build of llama.cpp (cyllama).

A line of standard input is {"path", "f32", "ids", "texts"}; the answer is one line of JSON:
  tensors   by gguf's reader: name -> [type, shape, sum of values, sum of magnitudes]
  q8_same   whether gguf's quantization of the values in f32, a file of the same model, has the same bytes
  template  the chat template
  logits    after each of ids
  tokens    of each text
"""

import json
import sys

import gguf
import numpy
from cyllama.llama import llama_cpp

llama_cpp.disable_logging()
llama_cpp.llama_backend_init()


class Model(llama_cpp.LlamaModel):
    """cyllama 0.2.18 reads n_vocab of its models, which have none."""

    n_vocab = property(lambda self: self.get_vocab().n_vocab)


def tensors(path):
    out = {}
    for t in gguf.GGUFReader(path).tensors:
        values = gguf.quants.dequantize(t.data, t.tensor_type).astype(numpy.float64)
        out[t.name] = [t.tensor_type.name, [int(n) for n in reversed(t.shape)], float(values.sum()), float(numpy.abs(values).sum())]
    return out


def q8_same(path, f32):
    exact = {t.name: t.data for t in gguf.GGUFReader(f32).tensors}
    for t in gguf.GGUFReader(path).tensors:
        if t.tensor_type == gguf.GGMLQuantizationType.Q8_0:
            if not numpy.array_equal(gguf.quants.quantize(exact[t.name], t.tensor_type), t.data):
                return False
    return True


def logits(model, ids):
    p = llama_cpp.LlamaContextParams()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 128, 128, 128, 2, 2
    p.type_k = p.type_v = 0  # float32
    p.flash_attn_type = 0  # off
    context = llama_cpp.LlamaContext(model, p)
    rows = []
    for at, i in enumerate(ids):
        batch = llama_cpp.LlamaBatch(n_tokens=1, embd=0, n_seq_max=1)
        batch.add(i, at, [0], True)
        context.decode(batch)
        rows.append([float(v) for v in context.get_logits()])
    return rows


for line in sys.stdin:
    q = json.loads(line)
    p = llama_cpp.LlamaModelParams()
    p.n_gpu_layers, p.use_extra_bufts = 0, False
    model = Model(q["path"], p)
    vocab = model.get_vocab()
    answer = {
        "tensors": tensors(q["path"]),
        "q8_same": q8_same(q["path"], q["f32"]) if q.get("f32") else True,
        "template": model.get_default_chat_template(),
        "logits": logits(model, q["ids"]),
        "tokens": [list(vocab.tokenize(t, False, True)) for t in q["texts"]],
    }
    print(json.dumps(answer), flush=True)
