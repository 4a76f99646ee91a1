import { ApiError } from '../contract/errors.ts'

/** All that the configuration of Caddy depends on. None of it changes with a deploy, a domain or a certificate. */
export interface EdgeSettings {
  readonly httpPort: number
  readonly httpsPort: number
  /** Requests for this host go to the API; those for every other one to the gateway. */
  readonly dashboardHost: string
  /** Addresses and networks (CIDR) of proxies in front, whose X-Forwarded-* headers are believed. */
  readonly trustedProxies: readonly string[]
  /** The paths of Unix sockets. */
  readonly sockets: {
    readonly api: string
    /** Of the gateway, for public traffic. */
    readonly apps: string
    /** Of the gateway, for questions about certificates. */
    readonly questions: string
    /** Of Caddy itself, for its operator. */
    readonly admin: string
  }
  /** The loopback port on which Caddy asks itself for certificates. */
  readonly questionsPort: number
  /** A secret in the path of these questions, because other programs of this machine may reach the port. */
  readonly token: string
  /** The folder that Caddy writes to. */
  readonly folder: string
}

/** A value of Caddy's JSON, as documented at https://caddyserver.com/docs/json/. */
type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }
type JsonObject = { readonly [name: string]: Json }

/** Paths that authorities, and this server's own checks of DNS, ask for by plain HTTP. */
const plainPaths = ['/.well-known/acme-challenge/*', '/.well-known/fairlead/*']

/** One year. Visitors that came once by HTTPS do not try HTTP again (RFC 6797). */
const strictTransport = 'max-age=31536000'

/** The time for which Caddy goes on dialling a gateway or a server that restarts: nothing of a request has been sent then. */
const redialFor = '10s'
const redialEvery = '100ms'

/**
 * The longest time from the first byte of a connection to the end of a request's head. It includes the handshake, which
 * waits up to 30 s for the certificate of a name that is visited for the first time.
 */
const headTimeout = '45s'
const idleTimeout = '2m'
/**
 * Four times as much as the gateway and the API read, so that they are the ones that refuse a head, with 431: by HTTP/2, Go ends the
 * whole connection instead, which no visitor understands.
 */
const mostHeaderBytes = 64 * 1024

/**
 * Returns the one configuration of Caddy, in its JSON. Deploys, domains and certificates change nothing of it, because a
 * reload cuts connections: Caddy passes requests on by their host alone, and asks the gateway for each certificate.
 */
export function caddyConfiguration(settings: EdgeSettings): JsonObject {
  const { sockets, folder } = settings
  return {
    admin: {
      listen: `unix/${sockets.admin}`,
      // A client on a Unix socket has to name some host (Caddy checks it against DNS rebinding).
      origins: ['localhost'],
      config: { persist: false },
    },
    logging: { logs: { default: logOf(folder) } },
    storage: { module: 'file_system', root: `${folder}/storage` },
    apps: { http: httpApp(settings), tls: tlsApp(settings) },
  }
}

/** Warnings and errors go to a file that Caddy itself keeps small, also while no server runs. */
const logOf = (folder: string): JsonObject => ({
  level: 'WARN',
  encoder: { format: 'json', time_format: 'iso8601' },
  writer: { output: 'file', filename: `${folder}/caddy.log`, roll_size_mb: 10, roll_gzip: false, roll_keep: 1 },
  // Each visitor without a name that is served here would add lines, and there are scanners.
  exclude: ['tls.handshake'],
})

function httpApp(settings: EdgeSettings): JsonObject {
  const { httpPort, httpsPort } = settings
  return {
    http_port: httpPort,
    https_port: httpsPort,
    grace_period: '10s',
    servers: {
      plain: { ...serverOn(`:${httpPort}`, settings), protocols: ['h1'], routes: plainRoutes(settings) },
      secure: {
        ...serverOn(`:${httpsPort}`, settings),
        protocols: ['h1', 'h2', 'h3'],
        tls_connection_policies: [{}],
        routes: secureRoutes(settings),
      },
      questions: {
        ...serverOn(`127.0.0.1:${settings.questionsPort}`, settings),
        protocols: ['h1'],
        routes: questionRoutes(settings),
      },
    },
  }
}

/** Bodies have no deadline, in either direction: gateway and API end what makes no progress. */
const serverOn = (address: string, { dashboardHost }: EdgeSettings): JsonObject => ({
  listen: [address],
  automatic_https: { disable: true },
  read_header_timeout: headTimeout,
  idle_timeout: idleTimeout,
  max_header_bytes: mostHeaderBytes,
  errors: { routes: errorRoutes(dashboardHost) },
})

/**
 * Certificates come from the gateway at each handshake. For a name without one Caddy would ask an authority, unless
 * `ask` refuses: it refuses every name. The authority named here does not exist.
 */
function tlsApp({ questionsPort, token }: EdgeSettings): JsonObject {
  const at = `http://127.0.0.1:${questionsPort}/${token}`
  const policy = {
    get_certificate: [{ via: 'http', url: `${at}/certificate` }],
    on_demand: true,
    issuers: [noAuthority],
    disable_ocsp_stapling: true,
  }
  return { automation: { policies: [policy], on_demand: { ask: `${at}/ask` } } }
}

/** Without challenges of its own, Caddy leaves the requests of authorities to the routes. */
const noAuthority: JsonObject = {
  module: 'acme',
  ca: 'https://127.0.0.1:1/no-authority',
  challenges: { http: { disabled: true }, 'tls-alpn': { disabled: true } },
}

function plainRoutes({ sockets, trustedProxies, httpsPort }: EdgeSettings): Json[] {
  const port = httpsPort === 443 ? '' : `:${httpsPort}`
  return [
    { match: [{ path: plainPaths }], handle: [proxyTo(sockets.apps, { trustedProxies })], terminal: true },
    // HTTP/1.0 has no host.
    { match: [{ expression: '{http.request.host} == ""' }], handle: [{ handler: 'error', status_code: 400 }] },
    {
      handle: [
        {
          handler: 'static_response',
          status_code: 308,
          headers: { Location: [`https://{http.request.host}${port}{http.request.uri}`] },
        },
      ],
    },
  ]
}

function secureRoutes({ dashboardHost, sockets, trustedProxies }: EdgeSettings): Json[] {
  // Each request dials anew, so that none meets a connection that a server closes as it stops.
  const api = proxyTo(sockets.api, { trustedProxies, keepsConnections: false })
  return [
    {
      match: [{ host: [dashboardHost], method: ['POST', 'PUT', 'PATCH', 'DELETE'] }],
      handle: [untilAnswered(api), api],
      terminal: true,
    },
    { match: [{ host: [dashboardHost] }], handle: [api], terminal: true },
    { handle: [{ ...proxyTo(sockets.apps, { trustedProxies }), headers: strictTransportUnlessSet }] },
  ]
}

/**
 * Passes a request on to the next handler when the server behind `proxy` answers. Go loses the body of a request that could not
 * be sent, so that Caddy cannot repeat it; this asks without the body first.
 */
const untilAnswered = (proxy: JsonObject): JsonObject => ({
  ...proxy,
  rewrite: { method: 'GET', uri: '/healthz' },
  handle_response: [{ routes: [{ handle: [{ handler: 'vars', is_there: true }] }] }],
})

function questionRoutes({ token, sockets }: EdgeSettings): Json[] {
  return [
    {
      match: [{ path: [`/${token}/certificate`] }],
      handle: [
        { handler: 'rewrite', strip_path_prefix: `/${token}` },
        proxyTo(sockets.questions, { trustedProxies: [], keepsConnections: false, answersWithin: headTimeout }),
      ],
      terminal: true,
    },
    { handle: [{ handler: 'static_response', status_code: 403 }] },
  ]
}

interface ProxyOptions {
  readonly trustedProxies: readonly string[]
  readonly keepsConnections?: boolean
  readonly answersWithin?: string
}

function proxyTo(socket: string, { trustedProxies, keepsConnections = true, answersWithin }: ProxyOptions): JsonObject {
  return {
    handler: 'reverse_proxy',
    upstreams: [{ dial: `unix/${socket}` }],
    // Answers without a length are passed on at once in any case. With -1 the others would be, too, but then Caddy goes on to
    // read an answer whose client has left, and reloads cut requests.
    flush_interval: '1ms',
    trusted_proxies: trustedProxies,
    load_balancing: {
      try_duration: redialFor,
      try_interval: redialEvery,
      // Nothing is repeated that was sent: it may have taken effect, or was refused because there is too much already.
      retry_match: [{ method: ['NONE'] }],
    },
    transport: {
      protocol: 'http',
      versions: ['1.1'],
      // Bodies are passed on as they are.
      compression: false,
      // Closed by Caddy before the other end does, which could cross a request.
      keep_alive: keepsConnections
        ? { enabled: true, idle_timeout: '3s', max_idle_conns_per_host: 256 }
        : { enabled: false },
      ...(answersWithin === undefined ? {} : { response_header_timeout: answersWithin }),
    },
  }
}

/** For answers that are passed on. An app may have a policy of its own. */
const strictTransportUnlessSet: JsonObject = {
  response: {
    require: { headers: { 'Strict-Transport-Security': null } },
    set: { 'Strict-Transport-Security': [strictTransport] },
  },
}

/** The answers of Caddy itself. */
function errorRoutes(dashboardHost: string): Json[] {
  const unreachable = '{http.error.status_code} in [502, 503, 504]'
  return [
    {
      match: [{ host: [dashboardHost], path: apiPaths, expression: unreachable }],
      handle: [retryAfter, answer('{http.error.status_code}', 'application/json', JSON.stringify(serverAway))],
      terminal: true,
    },
    {
      match: [{ expression: unreachable }],
      handle: [
        retryAfter,
        plainText('{http.error.status_code}', 'This address cannot be reached at the moment. Please try again soon.'),
      ],
      terminal: true,
    },
    { handle: [plainText('{http.error.status_code}', '{http.error.status_code} {http.error.status_text}')] },
  ]
}

/** Their answers are JSON in any case. */
const apiPaths = ['/v1/*', '/dashboard/api/*']
const serverAway = new ApiError('server_error', 'The server is away; try again in a moment.').toBody()

const retryAfter: JsonObject = { handler: 'headers', response: { set: { 'Retry-After': ['2'] } } }

const plainText = (status: string, text: string): JsonObject => answer(status, 'text/plain; charset=utf-8', `${text}\n`)

const answer = (status: string, type: string, body: string): JsonObject => ({
  handler: 'static_response',
  status_code: status,
  headers: { 'Content-Type': [type], 'Cache-Control': ['no-store'] },
  body,
})
