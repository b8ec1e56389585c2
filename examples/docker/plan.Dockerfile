# validate, plan, drift, history and reports: no JVM. Mount the project: docker run -v "$PWD:/project" IMAGE drift
FROM python:3.12-slim-bookworm
ARG VERSION=0.2.0
RUN pip install --no-cache-dir "zlayout[report,glue,hive,postgres,metrics]==$VERSION" && useradd --create-home --uid 10001 zlayout
USER 10001
WORKDIR /project
ENTRYPOINT ["zlayout"]
CMD ["--help"]
