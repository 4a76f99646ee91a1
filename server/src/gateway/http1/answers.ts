import type { ServerResponse } from 'node:http'
import { STATUS_CODES } from '../../platform/http.ts'

/** Answers in the name of the gateway, with a short plain text that no cache keeps. */
export function answer(res: ServerResponse, status: number, message: string, headers: readonly string[] = []): void {
  send(res, status, Buffer.from(`${message}\n`), headers)
}

export function answerText(res: ServerResponse, text: string): void {
  send(res, 200, Buffer.from(text), ['X-Content-Type-Options', 'nosniff'])
}

function send(res: ServerResponse, status: number, body: Buffer, headers: readonly string[]): void {
  // An answer of the app that was not passed on may have left its reason phrase.
  res.writeHead(status, STATUS_CODES[status] ?? '', [
    'Content-Type',
    'text/plain; charset=utf-8',
    'Content-Length',
    String(body.length),
    'Cache-Control',
    'no-store',
    ...headers,
  ])
  res.end(body)
}

export function answerUnavailable(res: ServerResponse): void {
  answer(res, 503, 'No release of this app is running at the moment. Please try again shortly.', ['Retry-After', '1'])
}

export function answerBusy(res: ServerResponse): void {
  answer(res, 503, 'Too many requests of this app wait for its answer. Please try again shortly.', ['Retry-After', '1'])
}

export function answerUnreadable(res: ServerResponse): void {
  answer(res, 503, 'The files of this site cannot be read at the moment. Please try again shortly.', [
    'Retry-After',
    '1',
  ])
}

export function answerBadGateway(res: ServerResponse): void {
  answer(res, 502, 'The app did not answer this request.')
}

export function answerUnknownHost(res: ServerResponse): void {
  answer(res, 404, 'There is no app at this address.')
}
