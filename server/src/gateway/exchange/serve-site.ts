import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Log } from '../control/log.ts'
import type { SiteEndpoint } from '../control/protocol.ts'
import { answerUnreadable } from '../http1/answers.ts'
import { DEPLOYMENT_HEADER_ON_WIRE } from '../http1/deployment-header.ts'
import { answerSite } from '../sites/site.ts'
import type { Backend } from '../upstream/backend.ts'
import { faultOf } from './faults.ts'
import { cut, type Route } from './state.ts'
import { countAnswer, countTime } from './traffic.ts'

/** Answers a request from the folder of a route's static site. It counts as running until its answer is closed. */
export function serveSite(
  route: Route,
  backend: Backend,
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  log: Log,
): void {
  const { site } = backend
  if (site === null) return
  const startedAt = performance.now()
  const cutThis = () => cut({ outgoing: null, req, client: req.socket })
  const leaveRoute = route.running.add(cutThis)
  const leaveSite = site.running.add(cutThis)
  res.on('close', () => {
    countAnswer(route.traffic, res)
    if (res.writableFinished) countTime(route.traffic, startedAt)
    leaveRoute()
    leaveSite()
  })
  answerFromSite({ backend, site: site.endpoint, req, res, path, log })
}

/** Answers from the folder of a site. A file that cannot be sent as its head has announced cuts the connection. */
export function answerFromSite(request: {
  readonly backend: Backend
  readonly site: SiteEndpoint
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly path: string
  readonly log: Log
}): void {
  const { backend, site, req, res, path, log } = request
  const { deploymentId } = backend.upstream
  res.setHeader(DEPLOYMENT_HEADER_ON_WIRE, deploymentId)
  const fail = (error: unknown): void => {
    // A visitor who leaves early is not an error.
    if (res.destroyed) return
    log.warn({ fault: faultOf(error), deploymentId }, 'a file of a static site could not be sent')
    if (res.headersSent) cut({ outgoing: null, req, client: req.socket })
    else answerUnreadable(res)
  }
  answerSite(site, path, req, res)
    .then((isReadable) => {
      if (isReadable) return
      log.warn({ deploymentId }, 'the folder of a static site cannot be read')
      backend.unreadable()
      answerUnreadable(res)
    }, fail)
    .catch(fail)
}
