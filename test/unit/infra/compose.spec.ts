import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';
import { projectRoot } from '../../../src/project-root.ts';

interface Service {
  readonly image: string;
  readonly build?: { readonly args: Readonly<Record<string, string>> };
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly container_name?: string;
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: object;
  readonly restart?: string;
  readonly mem_limit?: string;
  readonly volumes?: readonly string[];
}
interface ComposeFile {
  readonly 'x-images': Readonly<Record<string, string>>;
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const read = (name: string): string => readFileSync(join(projectRoot, name), 'utf8');

describe('docker-compose.yml', () => {
  const text = read('docker-compose.yml');
  const file = parse(text, { merge: true }) as ComposeFile;
  const services = Object.entries(file.services);
  const service = (name: string): Service =>
    file.services[name] ?? expect.fail(`there is no service ${name}`);
  const roles = ['api', 'relay', 'projector'] as const;
  const brokers = ['kafka-1', 'kafka-2', 'kafka-3'] as const;

  it('takes every image from the one list at the top', () => {
    const images = Object.values(file['x-images']);
    for (const [name, { image, build }] of services) {
      const from = build ? build.args.NODE_IMAGE : image;
      expect(images, name).to.include(from);
    }
    const body = text.slice(text.indexOf('x-kafka:'));
    for (const image of images) expect(body, 'a version outside of x-images').to.not.include(image);
  });

  it('runs three brokers with three copies, of which two have to confirm', () => {
    expect(services.map(([name]) => name).filter((name) => name.startsWith('kafka'))).to.deep.equal(brokers);
    const externalPorts = brokers.map((name) => {
      const { environment = {}, ports = [] } = service(name);
      expect(environment).to.include({
        KAFKA_DEFAULT_REPLICATION_FACTOR: 3,
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 3,
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 3,
        KAFKA_MIN_INSYNC_REPLICAS: 2,
        KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
      });
      expect(String(environment.KAFKA_ADVERTISED_LISTENERS)).to.include(`INTERNAL://${name}:9092`);
      expect(String(environment.KAFKA_CONTROLLER_QUORUM_VOTERS)).to.include(
        `${environment.KAFKA_NODE_ID}@${name}:`,
      );
      return ports.map((port) => port.split(':').slice(0, 2).join(':')).join();
    });
    expect(externalPorts).to.deep.equal(['127.0.0.1:19092', '127.0.0.1:19093', '127.0.0.1:19094']);
  });

  it('starts the projector as the image starts, with a bound for what its heap lets lie', () => {
    const [, image = ''] = /^ENTRYPOINT (.*)$/m.exec(read('Dockerfile')) ?? [];
    const [node, ...script] = JSON.parse(image) as string[];
    expect(service('projector').entrypoint).to.deep.equal([node, '--max-semi-space-size=16', ...script]);
  });

  for (const role of roles) {
    it(`runs the role ${role} as a service that can be scaled`, () => {
      const { command, container_name: containerName, ports = [], environment = {} } = service(role);
      expect(command).to.deep.equal(['up', '--role', role]);
      expect(containerName).to.equal(undefined);
      for (const port of ports) expect(port, 'one port on the host for all').to.match(/:\d+-\d+:\d+$/);
      expect(environment).to.include.keys(
        'DATABASE_URL',
        'KAFKA_BROKERS',
        'SCHEMA_REGISTRY_URL',
        'REDIS_URL',
      );
      expect(Object.keys(service(role).depends_on ?? {})).to.include.members([
        'postgres',
        ...brokers,
        'registry',
      ]);
    });
  }

  it('gives every variable a default', () => {
    const variables = [...text.matchAll(/\$\{([^}]*)\}/g)].map(([, inside]) => inside);
    expect(variables).to.not.have.lengthOf(0);
    for (const variable of variables) expect(variable).to.match(/^\w+:-.+$/);
  });

  it('waits only for services that exist and can say that they are healthy', () => {
    for (const [name, { depends_on: dependencies = {} }] of services) {
      for (const [dependency, { condition }] of Object.entries(dependencies)) {
        expect(condition, name).to.equal('service_healthy');
        expect(service(dependency).healthcheck, dependency).to.be.an('object');
      }
    }
  });

  it('bounds the memory of every service, restarts it, and opens ports on the loopback address only', () => {
    for (const [name, { mem_limit: memory, restart, ports = [] }] of services) {
      expect(memory, name).to.match(/^\d+[mg]$/);
      expect(restart, name).to.equal('unless-stopped');
      for (const port of ports) expect(port, name).to.match(/^127\.0\.0\.1:/);
    }
  });

  it('keeps data in volumes that are declared', () => {
    const used = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0]));
    expect(used.toSorted()).to.deep.equal(Object.keys(file.volumes).toSorted());
  });
});

describe('Dockerfile', () => {
  const lines = read('Dockerfile').split('\n');

  it('takes its image from an argument and runs without root and without development packages', () => {
    const from = lines.filter((line) => line.startsWith('FROM '));
    expect(from).to.have.lengthOf(2);
    for (const line of from) expect(line).to.match(/^FROM \$\{NODE_IMAGE\}/);
    const runtime = lines.slice(lines.indexOf(from[1] ?? ''));
    expect(runtime).to.include('USER node');
    expect(runtime.some((line) => line.startsWith('HEALTHCHECK'))).to.equal(true);
    expect(lines.some((line) => line.includes('npm prune --omit=dev'))).to.equal(true);
  });

  it('is built from what belongs into it', () => {
    const ignored = read('.dockerignore').split('\n');
    expect(ignored).to.include.members(['node_modules', '.git', '.env', '.millrace', 'test']);
  });
});
