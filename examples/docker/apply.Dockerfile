# apply on a stock image of Spark, as the driver and as the executors of Spark on Kubernetes, in client and in cluster mode.
FROM apache/spark:4.1.1-scala2.13-java17-python3-ubuntu
ARG VERSION=0.2.0
ENV UV_PYTHON_INSTALL_DIR=/opt/python
USER 0
# The image has Python 3.10, and zlayout needs 3.11. pyspark is that of the image.
RUN python3 -m pip install --no-cache-dir uv==0.13.9 \
 && uv python install 3.12 \
 && uv venv --python-preference only-managed --python 3.12 /opt/zlayout/venv \
 && uv pip install --no-cache --python /opt/zlayout/venv/bin/python "zlayout[report,glue,hive,postgres,metrics]==$VERSION" \
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
