# syntax=docker/dockerfile:1
FROM node:24-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 make g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The lock file names better-sqlite3 12 for Node 20; Node 24 needs 13, which ships prebuilt. So 12 is not even compiled, only node-pty is.
RUN npm ci --ignore-scripts && npm install --save-exact better-sqlite3@13.2.0 && npm rebuild node-pty
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY server server
COPY plugins plugins
COPY routes routes
COPY migrations migrations
RUN node scripts/build.js && npm prune --omit=dev

FROM node:24-slim
RUN apt-get update && apt-get install -y --no-install-recommends bash bubblewrap tini git ca-certificates \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --uid 10001 --create-home toolwright \
  && mkdir /data && chown toolwright /data
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json LICENSE ./
USER 10001
ENV NODE_ENV=production TOOLWRIGHT_HOME=/data TOOLWRIGHT_HOST=0.0.0.0 TOOLWRIGHT_ALLOW_REMOTE=true TOOLWRIGHT_SHELL_EXECUTOR=bash-sandbox
VOLUME /data
EXPOSE 7410
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:7410/health/live').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# PID 1 must reap what commands leave behind and pass signals on; Node does neither.
ENTRYPOINT ["tini", "-g", "--", "node", "dist/server/main.js"]
