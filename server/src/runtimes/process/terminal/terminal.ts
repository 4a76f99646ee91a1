import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { programFile } from '../../../platform/package-files.ts'
import { startProcess } from '../../../platform/processes.ts'
import { hasPseudoterminals } from './native.ts'

export interface Terminal {
  /** The descriptor for the three standard streams of the command. No other process inherits it. */
  readonly device: number
  readonly keyboard: Writable
  readonly screen: Readable
  resize(columns: number, rows: number): void
  /** Closes this process's descriptor after the command has the device. */
  release(): void
  /** Hangs up: the command gets SIGHUP. */
  close(): void
}

/** The time limit for the terminal process to open a terminal: a busy machine starts programs slowly. */
const startMs = 30_000

/** The program of util-linux that starts a new session with a terminal. */
const setsid = '/usr/bin/setsid'

/** Makes the command's standard input the terminal of its session. */
export const takingTerminal = (argv: readonly [string, ...string[]]): [string, ...string[]] => [
  setsid,
  '--ctty',
  '--wait',
  ...argv,
]

export const hasTerminals = (): boolean => process.platform === 'linux' && existsSync(setsid) && hasPseudoterminals()

/**
 * Opens a terminal in a separate process, which ends with this process. Every process that starts at the same time
 * would inherit a terminal of this process, also processes of other apps.
 */
export async function openTerminal(size: { readonly columns: number; readonly rows: number }): Promise<Terminal> {
  const host = startProcess(process.execPath, [programFile('terminal'), String(size.columns), String(size.rows)], {
    env: {},
    stdio: ['pipe', 'pipe', 'ignore', 'ipc'],
  })
  try {
    const device = openDevice(await nameFrom(host))
    host.send({ opened: true })
    return terminalOf(host, device)
  } catch (error) {
    host.kill('SIGKILL')
    throw error
  }
}

/**
 * Returns the device name that the terminal process sends.
 *
 * @throws Error when the process ends first, or takes too long
 */
export async function nameFrom(host: ChildProcess, withinMs = startMs): Promise<string> {
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, AbortSignal.timeout(withinMs)])
  const ended = once(host, 'exit', { signal }).then(() => {
    throw new Error('the process of the terminal has ended')
  })
  try {
    const [name] = await Promise.race([once(host, 'message', { signal }), ended])
    return String(name)
  } catch (error) {
    throw signal.aborted ? new Error(`the process of the terminal has not started within ${withinMs / 1000} s`) : error
  } finally {
    over.abort()
  }
}

/** Opens the device, but does not make it the terminal of the session of the server. */
function openDevice(name: string): number {
  if (!/^\/dev\/pts\/\d+$/.test(name)) throw new Error(`${name} is not a terminal`)
  return openSync(name, constants.O_RDWR | constants.O_NOCTTY)
}

function terminalOf(host: ChildProcess, device: number): Terminal {
  const { stdin: keyboard, stdout: screen } = host
  if (keyboard === null || screen === null) throw new Error('the process of the terminal has no streams')
  // The terminal process may end before it has read everything.
  keyboard.on('error', () => undefined)
  let isOpen = true
  return {
    device,
    keyboard,
    screen,
    resize: sizesTo(host),
    release() {
      if (isOpen) closeSync(device)
      isOpen = false
    },
    close: () => void host.kill('SIGKILL'),
  }
}

/**
 * Sends one size at a time. Of the sizes that arrive during a send, it sends only the last: a client may send any
 * number.
 */
function sizesTo(host: ChildProcess): Terminal['resize'] {
  let next: { readonly columns: number; readonly rows: number } | undefined
  let isSending = false
  const sendNext = () => {
    if (isSending || next === undefined || !host.connected) return
    const size = next
    next = undefined
    isSending = true
    // An error means that the process has ended.
    host.send(size, () => {
      isSending = false
      sendNext()
    })
  }
  return (columns, rows) => {
    next = { columns, rows }
    sendNext()
  }
}
