import { ApiError } from '../contract/errors.ts'

/** Everything in Caddy's configuration. It does not depend on deploys, domains and certificates. */
export interface EdgeSettings {
  readonly httpPort: number
  readonly httpsPort: number
  /** Requests for this host go to the API, and all other requests go to the gateway. */
  readonly dashboardHost: string
  /** Addresses and networks (CIDR) of proxies whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** Paths of Unix sockets. */
  readonly sockets: {
    readonly api: string
    /** The gateway's socket for public traffic. */
    readonly apps: string
    /** The gateway's socket for questions about certificates. */
    readonly questions: string
    readonly admin: string
  }
  /** Caddy asks itself for certificates on this loopback port. */
  readonly questionsPort: number
  /** A secret in the path of these questions, because other programs on this machine can reach the port. */
  readonly token: string
  readonly folder: string
}

/** A value of Caddy's JSON (https://caddyserver.com/docs/json/). */
type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }
type JsonObject = { readonly [name: string]: Json }

/** Certificate authorities and this server's DNS checks request these paths by plain HTTP. */
const plainPaths = ['/.well-known/acme-challenge/*', '/.well-known/fairlead/*']

/** One year, in which a browser does not try HTTP again (RFC 6797). */
const strictTransport = 'max-age=31536000'

/** How long Caddy keeps dialling a gateway or a server that restarts. Nothing of a request has been sent yet. */
const redialFor = '10s'
const redialEvery = '100ms'

/**
 * The longest time from the first byte of a connection to the end of a request's head. It includes the TLS handshake,
 * which waits up to 30 s for the certificate of a name at its first visit.
 */
const headTimeout = '45s'
const idleTimeout = '2m'
/**
 * Four times the limit of the gateway and the API, so that they refuse a long head with 431. Go would close the whole
 * HTTP/2 connection, which no visitor understands.
 */
const mostHeaderBytes = 64 * 1024

/**
 * Returns Caddy's configuration as JSON. Deploys, domains and certificates do not change it, because a reload cuts
 * connections: Caddy routes only by host, and asks the gateway for each certificate.
 */
export function caddyConfiguration(settings: EdgeSettings): JsonObject {
  const { sockets, folder } = settings
  return {
    admin: {
      listen: `unix/${sockets.admin}`,
      // Caddy checks the host against DNS rebinding, so a client on a Unix socket has to name one.
      origins: ['localhost'],
      config: { persist: false },
    },
    logging: { logs: { default: logOf(folder) } },
    storage: { module: 'file_system', root: `${folder}/storage` },
    apps: { http: httpApp(settings), tls: tlsApp(settings) },
  }
}

/** Warnings and errors go to a file whose size Caddy limits, even while no server runs. */
const logOf = (folder: string): JsonObject => ({
  level: 'WARN',
  encoder: { format: 'json', time_format: 'iso8601' },
  writer: { output: 'file', filename: `${folder}/caddy.log`, roll_size_mb: 10, roll_gzip: false, roll_keep: 1 },
  // Scanners would add a line for every unknown name.
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

/** Bodies have no deadline: the gateway and the API end requests without progress. */
const serverOn = (address: string, { dashboardHost }: EdgeSettings): JsonObject => ({
  listen: [address],
  automatic_https: { disable: true },
  read_header_timeout: headTimeout,
  idle_timeout: idleTimeout,
  max_header_bytes: mostHeaderBytes,
  errors: { routes: errorRoutes(dashboardHost) },
})

/**
 * Certificates come from the gateway at each handshake. For a name without a certificate, Caddy would ask an authority
 * unless `ask` refuses the name; here it refuses every name. The authority named here does not exist.
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

/** Caddy leaves the authorities' requests to the routes. */
const noAuthority: JsonObject = {
  module: 'acme',
  ca: 'https://127.0.0.1:1/no-authority',
  challenges: { http: { disabled: true }, 'tls-alpn': { disabled: true } },
}

function plainRoutes({ sockets, trustedProxies, httpsPort }: EdgeSettings): Json[] {
  const port = httpsPort === 443 ? '' : `:${httpsPort}`
  return [
    { match: [{ path: plainPaths }], handle: [proxyTo(sockets.apps, { trustedProxies })], terminal: true },
    // An HTTP/1.0 request may have no host.
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
  // One connection for each request, so that a request never meets a connection that a stopping server closes.
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
 * Calls the next handler when the server behind `proxy` answers. Go loses the body of a request that it could not send,
 * so Caddy cannot repeat such a request. This handler asks first, without the body.
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
    // Answers without a length are passed on at once anyway. With -1 all answers would be, but then Caddy continues to
    // read an answer after its client has left, and reloads cut requests.
    flush_interval: '1ms',
    trusted_proxies: trustedProxies,
    load_balancing: {
      try_duration: redialFor,
      try_interval: redialEvery,
      // A request that was sent is never repeated: it may have taken effect, or overload may have been the reason for
      // its refusal.
      retry_match: [{ method: ['NONE'] }],
    },
    transport: {
      protocol: 'http',
      versions: ['1.1'],
      compression: false,
      // Caddy closes an idle connection first: when the other end closes it, a request may be on its way.
      keep_alive: keepsConnections
        ? { enabled: true, idle_timeout: '3s', max_idle_conns_per_host: 256 }
        : { enabled: false },
      ...(answersWithin === undefined ? {} : { response_header_timeout: answersWithin }),
    },
  }
}

/** An app may send a different policy. */
const strictTransportUnlessSet: JsonObject = {
  response: {
    require: { headers: { 'Strict-Transport-Security': null } },
    set: { 'Strict-Transport-Security': [strictTransport] },
  },
}

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

/** Errors of these paths are JSON in any case. */
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
