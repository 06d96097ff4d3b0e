# The image of a worker, an API or a viewer: this repository's wesichain, with what durable runs need.
# Every package is installed by its hash, and nothing runs as root. For more, build on it:
#   FROM wesichain
#   USER root
#   RUN pip install --no-cache-dir YOUR-PACKAGES
#   USER wesichain
FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home wesichain && install -d -o wesichain /app /var/lib/wesichain
COPY deploy/requirements.lock /src/deploy/requirements.lock
RUN pip install --no-cache-dir --require-hashes -r /src/deploy/requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src
WORKDIR /app
ENV PYTHONPATH=/app WESICHAIN_HOME=/var/lib/wesichain PYTHONUNBUFFERED=1
USER 10001
VOLUME /var/lib/wesichain
ENTRYPOINT ["wesichain"]
