.PHONY: build test check ci generate

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
