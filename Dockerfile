# An image of the static program: CA certificates, a directory for temporary files, licenses, and
# nothing else. It runs on CPUs; accelerators need glibc and their libraries, and so the program of a
# release in an image that has those. Files of the host are mounted below /work, the working directory:
#
#	docker build -t trireme .
#	docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" trireme train --config run.yaml
#
# GO_IMAGE may name a digest, golang@sha256:..., for a build that can be repeated exactly.
ARG GO_IMAGE=golang:1.26-bookworm

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN make dist PLATFORMS="$TARGETOS/$TARGETARCH" TAGS=static
WORKDIR /image
RUN mkdir -p usr/bin usr/share/doc/trireme etc/ssl/certs \
    && tar -xzf /src/dist/*.tar.gz --strip-components=1 -C usr/share/doc/trireme \
    && mv usr/share/doc/trireme/trireme usr/bin/ \
    && rm -r usr/share/doc/trireme/man usr/share/doc/trireme/completions \
    && cp /src/dist/*.cdx.json usr/share/doc/trireme/ \
    && cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ \
    && echo 'trireme:x:65532:65532::/work:/sbin/nologin' >etc/passwd \
    && install -d -m 1777 tmp \
    && install -d -o 65532 -g 65532 work

FROM scratch
LABEL org.opencontainers.image.title="Trireme" \
    org.opencontainers.image.description="Distributed training of transformer language models" \
    org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image/ /
ENV HOME=/work
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["/usr/bin/trireme"]
CMD ["--help"]
