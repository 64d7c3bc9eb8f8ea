"""Generation of one sequence by transformers on the processor.

Attention is scaled_dot_product_attention; generate() keeps keys and values in its default cache. A first token after the
same prompt is a warm-up.
"""
import statistics
import time

import torch
import transformers
from transformers import AutoModelForCausalLM

from peer_step import peak_mib


def prompt_ids(count, vocab):
    """The prompt of `trireme bench generate`."""
    return [(i * 7919 + 13) % vocab for i in range(count)]


class Clock:
    """A streamer: generate() calls put with the prompt, and then with each token."""

    def __init__(self):
        self.times = []

    def put(self, value):
        self.times.append(time.perf_counter())

    def end(self):
        pass


def generate(a):
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=getattr(torch, a.dtype), attn_implementation="sdpa").eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    ids = torch.tensor([prompt_ids(a.prompt_tokens, model.config.vocab_size)])
    for count in (1, a.new_tokens):
        clock = Clock()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, streamer=clock)
    times = [later - earlier for earlier, later in zip(clock.times, clock.times[1:])]
    return {
        "prompt_tokens_per_s": a.prompt_tokens / times[0], "tokens_per_s": 1 / statistics.median(times[1:]), "rss_mib": peak_mib(),
        "tokens": out[0, a.prompt_tokens:].tolist(), "transformers": transformers.__version__,
    }
