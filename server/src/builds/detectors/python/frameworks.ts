/** How a framework's application is called by a server. */
export type Interface = 'wsgi' | 'asgi' | 'aiohttp' | 'sanic' | 'streamlit'

export interface Framework {
  /** For people: `FastAPI`. */
  readonly name: string
  readonly speaks: Interface
}

const frameworks: Readonly<Record<string, Framework>> = {
  'flask.Flask': { name: 'Flask', speaks: 'wsgi' },
  'flask.app.Flask': { name: 'Flask', speaks: 'wsgi' },
  'apiflask.APIFlask': { name: 'APIFlask', speaks: 'wsgi' },
  'flask_openapi3.OpenAPI': { name: 'Flask', speaks: 'wsgi' },
  'connexion.FlaskApp': { name: 'Connexion', speaks: 'asgi' },
  'connexion.AsyncApp': { name: 'Connexion', speaks: 'asgi' },
  'bottle.Bottle': { name: 'Bottle', speaks: 'wsgi' },
  'bottle.default_app': { name: 'Bottle', speaks: 'wsgi' },
  'bottle.app': { name: 'Bottle', speaks: 'wsgi' },
  'falcon.App': { name: 'Falcon', speaks: 'wsgi' },
  'falcon.API': { name: 'Falcon', speaks: 'wsgi' },
  'falcon.asgi.App': { name: 'Falcon', speaks: 'asgi' },
  'fastapi.FastAPI': { name: 'FastAPI', speaks: 'asgi' },
  'fastapi.applications.FastAPI': { name: 'FastAPI', speaks: 'asgi' },
  'starlette.applications.Starlette': { name: 'Starlette', speaks: 'asgi' },
  'litestar.Litestar': { name: 'Litestar', speaks: 'asgi' },
  'litestar.app.Litestar': { name: 'Litestar', speaks: 'asgi' },
  'starlite.Starlite': { name: 'Starlite', speaks: 'asgi' },
  'quart.Quart': { name: 'Quart', speaks: 'asgi' },
  'blacksheep.Application': { name: 'BlackSheep', speaks: 'asgi' },
  'fasthtml.common.FastHTML': { name: 'FastHTML', speaks: 'asgi' },
  'fasthtml.FastHTML': { name: 'FastHTML', speaks: 'asgi' },
  'socketio.ASGIApp': { name: 'Socket.IO', speaks: 'asgi' },
  'socketio.WSGIApp': { name: 'Socket.IO', speaks: 'wsgi' },
  'ariadne.asgi.GraphQL': { name: 'Ariadne', speaks: 'asgi' },
  'strawberry.asgi.GraphQL': { name: 'Strawberry', speaks: 'asgi' },
  'django.core.wsgi.get_wsgi_application': { name: 'Django', speaks: 'wsgi' },
  'django.core.asgi.get_asgi_application': { name: 'Django', speaks: 'asgi' },
  'aiohttp.web.Application': { name: 'aiohttp', speaks: 'aiohttp' },
  'sanic.Sanic': { name: 'Sanic', speaks: 'sanic' },
}

/** The framework whose application the call of this name makes, such as `flask.Flask`. */
export const frameworkOf = (qualified: string): Framework | undefined =>
  Object.hasOwn(frameworks, qualified) ? frameworks[qualified] : undefined

/** Guesses the framework of an application that is made out of sight, by the packages that are installed. */
export function frameworkByPackages(packages: ReadonlySet<string>): Framework | undefined {
  const guesses: readonly (readonly [string, Framework])[] = [
    ['fastapi', { name: 'FastAPI', speaks: 'asgi' }],
    ['litestar', { name: 'Litestar', speaks: 'asgi' }],
    ['quart', { name: 'Quart', speaks: 'asgi' }],
    ['flask', { name: 'Flask', speaks: 'wsgi' }],
    ['bottle', { name: 'Bottle', speaks: 'wsgi' }],
    ['starlette', { name: 'Starlette', speaks: 'asgi' }],
  ]
  const found = guesses.filter(([name]) => packages.has(name))
  const interfaces = new Set(found.map(([, { speaks }]) => speaks))
  return interfaces.size === 1 ? found[0]?.[1] : undefined
}
