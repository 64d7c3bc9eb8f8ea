.PHONY: build test check ci generate dist image site train-free-fsdp train-baseline-fsdp

build:
	CGO_ENABLED=0 go build -o trireme ./cmd/trireme

test:
	go test -timeout 45m ./...

# What to run before a commit: format, vet, staticcheck, tests.
check:
	.ci/run quick

# What every change must pass: check, the race detector, the other platforms.
ci:
	.ci/run

# Writes the generated files again. Their generators are modules of their own.
generate:
	go generate ./...

# The files of a release, for each platform an archive and a bill of materials, with SHA256SUMS.
# The same commit and the same version of Go give the same bytes.
# TAGS=static builds the program of the image: without a C library, and without accelerators.
TAGS ?=
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
dist:
	CGO_ENABLED=0 GOFLAGS=-trimpath go -C internal/release run . -root $(CURDIR) -out $(CURDIR)/dist -platforms $(PLATFORMS) -tags "$(TAGS)"

# A container image from the Dockerfile; BUILDER is docker, podman or buildah.
BUILDER ?= docker
image:
	$(BUILDER) build -t trireme .

# The pages as a site in out/site, with a search. Sphinx and its theme are installed into out/site-tools.
# A warning of Sphinx, a dead link and a file of another host are errors.
site:
	python3 -m venv out/site-tools
	out/site-tools/bin/pip install --quiet --disable-pip-version-check -r site/requirements.txt
	out/site-tools/bin/sphinx-build -q -W --keep-going -E -c site -d out/site-doctrees . out/site
	SITE=$(CURDIR)/out/site go test -count=1 ./internal/repotest -run TestSite
	@echo out/site/index.html

# The Free Transformer and its baseline, sharded, from the files of examples/free-transformer.
NPROC ?= 2
FREE = ./trireme train --use-fsdp --nproc $(NPROC) --set data.path=examples/data/shakespeare/train.txt \
	--set data.eval_path=examples/data/shakespeare/validation.txt --set data.tokenizer=examples/llama-fsdp/model \
	--set training.warmup_steps=50 --set training.max_steps=400

train-free-fsdp: build
	$(FREE) --config examples/free-transformer/free_transformer.yaml

train-baseline-fsdp: build
	$(FREE) --config examples/free-transformer/baseline.yaml
