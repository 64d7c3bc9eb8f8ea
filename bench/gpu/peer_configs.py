"""The configurations of `trireme bench step` that the peers train."""

# family, layers, width, heads, key and value heads, feed-forward width, vocabulary, tokens per row, rows
CONFIGS = {
    "gpt2-1k": ("gpt2", 12, 768, 12, 12, 3072, 50257, 1024, 16),
    "llama-1b": ("llama", 16, 2048, 32, 8, 8192, 32000, 1024, 8),
    "llama-1b-4k": ("llama", 16, 2048, 32, 8, 8192, 32000, 4096, 2),
    "A": ("llama", 4, 256, 8, 8, 688, 512, 256, 8),
}
