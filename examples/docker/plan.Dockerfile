# validate, plan, drift, history and reports: no JVM. Mount the project: docker run -v "$PWD:/project" IMAGE drift
# IMAGE must name an image with its digest, such as python:3.12-slim-bookworm@sha256:..., because a tag can change. The
# digest is what `docker buildx imagetools inspect python:3.12-slim-bookworm` prints. Build in the folder of the project:
#   docker build --build-arg IMAGE=python:3.12-slim-bookworm@sha256:... --file plan.Dockerfile .
# uv pins zlayout and all packages that it needs, with hashes:
#   echo 'zlayout[report,glue,hive,postgres,metrics]' | uv pip compile --universal --python-version 3.12 \
#     --generate-hashes --upgrade --output-file .zlayout/requirements-image.txt -
ARG IMAGE
FROM ${IMAGE}
COPY .zlayout/requirements-image.txt /tmp/
RUN python -I -m pip install --no-cache-dir --require-hashes --only-binary :all: --requirement /tmp/requirements-image.txt \
 && useradd --create-home --uid 10001 zlayout
USER 10001
WORKDIR /project
ENTRYPOINT ["zlayout"]
CMD ["--help"]
