# docker-compose.yml passes the image, so that its version stands in one place; the default is for `docker build`.
ARG NODE_IMAGE=node:24-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npm run build && npm prune --omit=dev

FROM ${NODE_IMAGE}
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 MILLRACE_INFRA=external
WORKDIR /app
# Everything that is not TypeScript stays where the compiled code looks for it: beside the folder dist.
COPY --from=build --chown=root:root /app/package.json ./
COPY --from=build --chown=root:root /app/node_modules ./node_modules
COPY --from=build --chown=root:root /app/avro ./avro
COPY --from=build --chown=root:root /app/migrations ./migrations
COPY --from=build --chown=root:root /app/dist ./dist
USER node
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/livez`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/cli/millrace.js"]
CMD ["up"]
