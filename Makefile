.PHONY: build test check ci generate train-free-fsdp train-baseline-fsdp

build:
	CGO_ENABLED=0 go build -o trireme ./cmd/trireme

test:
	go test ./...

# What to run before a commit: format, vet, staticcheck, tests.
check:
	.ci/run quick

# What every change must pass: check, the race detector, the other platforms.
ci:
	.ci/run

# Writes the generated files again. Their generators are modules of their own.
generate:
	go generate ./...

# The Free Transformer and its baseline, sharded, from the files of examples/free-transformer.
NPROC ?= 2
FREE = ./trireme train --use-fsdp --nproc $(NPROC) --set data.path=examples/data/shakespeare/train.txt \
	--set data.eval_path=examples/data/shakespeare/validation.txt --set data.tokenizer=examples/llama-fsdp/model \
	--set training.warmup_steps=50 --set training.max_steps=400

train-free-fsdp: build
	$(FREE) --config examples/free-transformer/free_transformer.yaml

train-baseline-fsdp: build
	$(FREE) --config examples/free-transformer/baseline.yaml
