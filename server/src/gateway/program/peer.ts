import type { ChildProcess } from 'node:child_process'
import { type Server as NetServer, Socket } from 'node:net'
import type { Refusal, RefusedEndpoint, Settlement, ToEngine } from '../protocol/calls.ts'
import type { Assignment, Notice } from '../protocol/program.ts'
import { createCalls, type Handlers, type PendingCalls, serveCalls } from '../protocol/rpc.ts'
import { type Watch, type WatchOptions, watchAnswers } from '../protocol/watch.ts'
import type { SendConnection } from './sharing.ts'

type Message = ToEngine | Settlement | Refusal | Notice | Assignment

/** Another process of this gateway, behind an IPC channel. Both sides may make calls. */
export interface Peer {
  readonly call: PendingCalls<NetServer>['call']
  /** Sends a message that belongs to no call. */
  post(message: Refusal | Notice | Assignment): void
  /** The connection stays open in this process, too. */
  sendConnection: SendConnection
  /** Answers the other process's calls from now on. */
  serve(handlers: Handlers<NetServer>): void
  /** Rejects when the other process sends `failed` or ends. */
  next<Type extends Notice['type']>(type: Type): Promise<Extract<Notice, { type: Type }>>
  /** Asks the other process regularly whether it answers. */
  watch(options: WatchOptions): Watch
  readonly gone: Promise<void>
}

export const peerGone = 'PEER_GONE'

/** Creates the peer for a child process, or in a child (`process`) for the process that started it. */
export function createPeer(
  channel: ChildProcess | NodeJS.Process,
  on: {
    readonly refused?: (refused: RefusedEndpoint) => void
    readonly notice?: (notice: Notice | Assignment, socket?: Socket) => void
  } = {},
): Peer {
  const post = (message: Message, handle?: NetServer | Socket): void => {
    // Without a channel, its `disconnect` event rejects the waiting calls.
    if (channel.connected) channel.send?.(message, handle, { keepOpen: true }, () => {})
  }
  const calls = createCalls<NetServer>(post)
  const waiting = createWaiting()
  const gone = Promise.withResolvers<void>()
  let received = 0
  let answer: ((message: ToEngine, handle?: NetServer) => void) | null = null

  const onNotice = (notice: Notice | Assignment, handle: unknown): void => {
    if (notice.type === 'failed') waiting.fail(new Error(notice.error.message))
    waiting.settle(notice)
    on.notice?.(notice, handle instanceof Socket ? handle : undefined)
  }
  const onMessage = (message: Message, handle?: unknown): void => {
    received += 1
    if (message.type === 'request' || message.type === 'cancel') answer?.(message, handle as NetServer | undefined)
    else if (message.type === 'reply' || message.type === 'failure') calls.settle(message)
    else if (message.type === 'refused') on.refused?.(message)
    else onNotice(message, handle)
  }
  const onGone = (): void => {
    const error = Object.assign(new Error('the other process of the gateway has ended'), { code: peerGone })
    calls.fail(error)
    waiting.fail(error)
    gone.resolve()
  }
  const events = channel as NodeJS.EventEmitter
  events.on('message', onMessage)
  events.once('disconnect', onGone)
  if ('pid' in channel && channel !== process) {
    events.once('error', onGone)
    events.once('exit', onGone)
  }

  return {
    call: calls.call,
    post,
    sendConnection(connection, socket) {
      // Otherwise Node would track the connection to its end, and send messages about it.
      Object.assign(socket, { server: null })
      post({ type: 'connection', ...connection }, socket)
    },
    serve(handlers) {
      answer = serveCalls(handlers, post)
    },
    next(type) {
      if (channel.connected) return waiting.next(type)
      return Promise.reject(Object.assign(new Error('the other process has ended'), { code: peerGone }))
    },
    watch(options) {
      const watch = watchAnswers({ call: calls.call, received: () => received }, options)
      void gone.promise.then(watch.stop)
      return watch
    },
    gone: gone.promise,
  }
}

function createWaiting() {
  const waiting = new Map<string, PromiseWithResolvers<never>>()
  return {
    next(type: Notice['type']): Promise<never> {
      const next = Promise.withResolvers<never>()
      waiting.set(type, next)
      return next.promise
    },
    settle(notice: Notice | Assignment): void {
      waiting.get(notice.type)?.resolve(notice as never)
      waiting.delete(notice.type)
    },
    fail(error: Error): void {
      for (const { reject } of waiting.values()) reject(error)
      waiting.clear()
    },
  }
}
