import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, dirname } from 'node:path'
import type { Repository } from './repository.ts'

export interface GitServer extends AsyncDisposable {
  /** For `git_url`; `http://127.0.0.1:<port>/<folder>/.git`. */
  readonly url: string
  /** The requested paths, in order. */
  readonly requests: string[]
  /** The bytes of all responses. */
  sent(): number
}

/** Serves a repository over smart HTTP by git's CGI program. With a token, requests without the token get a 401. */
export async function gitServer(
  repository: Repository,
  options: { readonly token?: string; readonly user?: string } = {},
): Promise<GitServer> {
  const requests: string[] = []
  let sent = 0
  const expected = `Basic ${Buffer.from(`${options.user ?? 'x-access-token'}:${options.token}`).toString('base64')}`
  const server = createServer((request, response) => {
    requests.push(request.url ?? '')
    if (options.token !== undefined && request.headers.authorization !== expected) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
      return
    }
    serve(repository, request, response, (bytes) => {
      sent += bytes
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/${basename(repository.path)}/.git`,
    requests,
    sent: () => sent,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function serve(
  repository: Repository,
  request: IncomingMessage,
  response: ServerResponse,
  count: (bytes: number) => void,
): void {
  const url = new URL(request.url ?? '/', 'http://localhost')
  const program = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: dirname(repository.path),
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  request.pipe(program.stdin)
  const chunks: Buffer[] = []
  program.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  program.on('close', () => {
    const output = Buffer.concat(chunks)
    count(output.length)
    const end = output.indexOf('\r\n\r\n')
    for (const line of output.subarray(0, Math.max(end, 0)).toString().split('\r\n')) {
      const [name = '', value = ''] = line.split(': ')
      if (name === 'Status') response.statusCode = Number.parseInt(value, 10)
      else response.setHeader(name, value)
    }
    response.end(output.subarray(end + 4))
  })
}
