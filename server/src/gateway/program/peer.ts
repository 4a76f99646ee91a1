import type { ChildProcess } from 'node:child_process'
import type { Server as NetServer } from 'node:net'
import { createCalls, type PendingCalls } from '../control/calls.ts'
import type { Assignment, Notice } from '../control/program.ts'
import type { Refusal, RefusedEndpoint, Settlement, ToEngine } from '../control/protocol.ts'
import { type Handlers, serveCalls } from '../control/serve-calls.ts'

type Message = ToEngine | Settlement | Refusal | Notice | Assignment

/** Another process of this gateway, over the IPC channel between the two. Either may call the other. */
export interface Peer {
  readonly call: PendingCalls<NetServer>['call']
  /** Sends a message that belongs to no call. */
  post(message: Refusal | Notice | Assignment): void
  /** Answers the other's calls from now on. */
  serve(handlers: Handlers<NetServer>): void
  /** Resolves with the next notice of this type; rejects when the other says `failed` or is gone. */
  next<Type extends Notice['type']>(type: Type): Promise<Extract<Notice, { type: Type }>>
  /** Resolves when the channel is closed. */
  readonly gone: Promise<void>
}

/** The code of the error for calls of a process that is gone. */
export const peerGone = 'PEER_GONE'

/** Speaks to a child, or as a child (`process`) to the process that started this one. */
export function createPeer(
  channel: ChildProcess | NodeJS.Process,
  on: {
    readonly refused?: (refused: RefusedEndpoint) => void
    readonly notice?: (notice: Notice | Assignment) => void
  } = {},
): Peer {
  const post = (message: Message, handle?: NetServer): void => {
    // Of a channel that is closed the waiting calls learn by its `disconnect`.
    if (channel.connected) channel.send?.(message, handle, {}, () => {})
  }
  const calls = createCalls<NetServer>(post)
  const waiting = new Map<Notice['type'], PromiseWithResolvers<never>>()
  const gone = Promise.withResolvers<void>()
  let answer: ((message: ToEngine, handle?: NetServer) => void) | null = null

  const fail = (error: Error): void => {
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }
  const onNotice = (notice: Notice | Assignment): void => {
    if (notice.type === 'failed') fail(new Error(notice.error.message))
    const type = notice.type as Notice['type']
    waiting.get(type)?.resolve(notice as never)
    waiting.delete(type)
    on.notice?.(notice)
  }
  const onMessage = (message: Message, handle?: unknown): void => {
    if (message.type === 'request' || message.type === 'cancel') answer?.(message, handle as NetServer | undefined)
    else if (message.type === 'reply' || message.type === 'failure') calls.settle(message)
    else if (message.type === 'refused') on.refused?.(message)
    else onNotice(message)
  }
  const onGone = (): void => {
    const error = Object.assign(new Error('the other process of the gateway has ended'), { code: peerGone })
    calls.fail(error)
    fail(error)
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
    serve(handlers) {
      answer = serveCalls(handlers, post)
    },
    next(type) {
      const next = Promise.withResolvers<never>()
      if (!channel.connected) next.reject(Object.assign(new Error('the other process has ended'), { code: peerGone }))
      else waiting.set(type, next)
      return next.promise
    },
    gone: gone.promise,
  }
}
