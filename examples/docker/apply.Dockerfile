# apply on a stock image of Spark, as the driver and as the executors of Spark on Kubernetes, in client and in cluster mode.
# plan.Dockerfile says how to write .zlayout/requirements-image.txt, and why IMAGE must have a digest:
#   docker build --build-arg IMAGE=apache/spark:4.1.1-scala2.13-java17-python3-ubuntu@sha256:... --file apply.Dockerfile .
ARG IMAGE
FROM ${IMAGE}
ENV UV_PYTHON_INSTALL_DIR=/opt/python
USER 0
COPY .zlayout/requirements-image.txt /tmp/
# The image has Python 3.10, and zlayout needs 3.11. uv compares what it downloads with the hashes in uv. pyspark is that of the image.
RUN printf 'uv==0.13.9 --hash=sha256:%s --hash=sha256:%s\n' \
      d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19 \
      ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375 > /tmp/uv.txt \
 && python3 -I -m pip install --no-cache-dir --require-hashes --only-binary :all: --requirement /tmp/uv.txt \
 && uv python install 3.12 \
 && uv venv --python-preference only-managed --python 3.12 /opt/zlayout/venv \
 && uv pip install --no-cache --python /opt/zlayout/venv/bin/python --require-hashes --only-binary :all: \
      --requirement /tmp/requirements-image.txt \
 && printf '%s\n' "$SPARK_HOME/python" "$SPARK_HOME"/python/lib/py4j-*-src.zip \
      > /opt/zlayout/venv/lib/python3.12/site-packages/spark.pth \
 && usermod --home /home/spark spark \
 && install --directory --owner 185 --group 185 /home/spark \
 && printf 'from zlayout.cli.main import main\nmain()\n' > /opt/zlayout/run.py
ENV PATH="/opt/zlayout/venv/bin:$PATH" PYSPARK_PYTHON=/opt/zlayout/venv/bin/python
# The project is part of the image, so that what runs is what was reviewed.
COPY . /opt/project
WORKDIR /opt/project
USER 185
