import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryDirectory } from '../harness/temporary.ts'
import { end, freePort, programEnvironment, untilAccepting, untilAnswering, versionOf } from './children.ts'

const startMs = 10_000

/** The settings of every nginx here; its defaults name folders of the system. */
const nginxSettings = (folder: string): string => `access_log off;
  client_body_temp_path ${folder}/client-body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  # The default closes a connection after 1,000 requests.
  keepalive_requests 1000000000;`

/** A widely used reverse proxy, configured for one app as its users would configure it. */
export interface ProxyProgram {
  readonly name: string
  readonly command: string
  readonly versionArgs: readonly string[]
  args(folder: string, file: string): string[]
  config(ports: { readonly own: number; readonly app: number }, folder: string): string
}

export interface RunningProxy extends AsyncDisposable {
  readonly address: string
  readonly version: string
  readonly pid: number
}

/** Configured like the gateway: keeps connections to the app open, sets X-Forwarded-*, writes no access log. */
export const nginx: ProxyProgram = {
  name: 'nginx',
  command: 'nginx',
  versionArgs: ['-v'],
  args: (folder, file) => ['-p', folder, '-e', 'stderr', '-c', file],
  config: ({ own, app }, folder) => `daemon off;
worker_processes auto;
pid ${folder}/nginx.pid;
error_log stderr error;
events {}
http {
  ${nginxSettings(folder)}
  upstream app {
    server 127.0.0.1:${app};
    keepalive 64;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${own};
    location / {
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
    }
  }
}
`,
}

/**
 * Answers itself, in place of an app: it costs a few microseconds per request and leaves the cores to the measured
 * servers.
 */
export const nginxAnswering: ProxyProgram = {
  ...nginx,
  config: ({ own }, folder) => `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr error;
events {}
http {
  ${nginxSettings(folder)}
  server {
    listen 127.0.0.1:${own};
    location / {
      return 200 Hello;
    }
  }
}
`,
}

/** Its defaults are keep-alive, X-Forwarded-* and no access log. */
export const caddy: ProxyProgram = {
  name: 'Caddy',
  command: 'caddy',
  versionArgs: ['version'],
  args: (_, file) => ['run', '--config', file],
  config: ({ own, app }) =>
    JSON.stringify({
      admin: { disabled: true, config: { persist: false } },
      logging: { logs: { default: { level: 'ERROR' } } },
      apps: {
        http: {
          servers: {
            app: {
              listen: [`127.0.0.1:${own}`],
              automatic_https: { disable: true },
              routes: [{ handle: [{ handler: 'reverse_proxy', upstreams: [{ dial: `127.0.0.1:${app}` }] }] }],
            },
          },
        },
      },
    }),
}

/** Caddy with a certificate. One text holds the private key and the chain. */
export const secureCaddy = (pem: string): ProxyProgram => ({
  ...caddy,
  config: ({ own, app }) =>
    JSON.stringify({
      admin: { disabled: true, config: { persist: false } },
      logging: { logs: { default: { level: 'ERROR' } } },
      apps: {
        http: {
          servers: {
            app: {
              listen: [`127.0.0.1:${own}`],
              automatic_https: { disable: true },
              tls_connection_policies: [{}],
              routes: [{ handle: [{ handler: 'reverse_proxy', upstreams: [{ dial: `127.0.0.1:${app}` }] }] }],
            },
          },
        },
        tls: { certificates: { load_pem: [{ certificate: pem, key: pem }] } },
      },
    }),
})

/**
 * Starts a proxy for the app on port `app` and waits for its first response. Resolves to null when it is not installed.
 *
 * @param options.hostname of a proxy that speaks HTTPS; visitors know that it leads to this machine
 */
export async function startProxy(
  program: ProxyProgram,
  { app, signal, hostname }: { app: number; signal: AbortSignal; hostname?: string },
): Promise<RunningProxy | null> {
  const version = await versionOf(program.command, program.versionArgs)
  if (version === null) return null
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const own = await freePort()
  const file = join(directory.path, 'config')
  await writeFile(file, program.config({ own, app }, directory.path))
  const child = spawn(program.command, program.args(directory.path, file), {
    cwd: directory.path,
    env: { ...programEnvironment(), HOME: directory.path },
    stdio: ['ignore', 'ignore', 'pipe'],
    // Does not receive the Ctrl+C of the terminal; it is stopped below.
    detached: true,
  })
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  await once(child, 'spawn')
  const { pid = 0 } = child
  cleanup.defer(() => end(child, 'SIGTERM'))
  const address = hostname === undefined ? `http://127.0.0.1:${own}/` : `https://${hostname}:${own}/`
  const until = AbortSignal.any([signal, AbortSignal.timeout(startMs)])
  await (hostname === undefined ? untilAnswering(address, child, until) : untilAccepting(own, child, until)).catch(
    (cause) => {
      throw new Error(`${program.name} does not answer: ${errors}`, { cause })
    },
  )
  const owned = cleanup.move()
  return { address, version, pid, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
