import { closeSync, readlinkSync, write } from 'node:fs'
import { Writable } from 'node:stream'
import { ReadStream } from 'node:tty'
import { openPseudoterminal, resizePseudoterminal } from './native.ts'

/*
 * The process of a terminal: its standard input and output are the terminal's other side. Its arguments are columns and
 * rows. It sends the name of the terminal's device, and closes its own descriptor after the message `opened`. It ends
 * with its input, or when nobody has the device open.
 */

/** Keys that the terminal did not accept, because its command reads none, are tried again after this time. */
const retryMs = 20

const [columns, rows] = process.argv.slice(2).map(Number)
const { master, slave } = openPseudoterminal(columns ?? 80, rows ?? 24)
const side = new ReadStream(master)
// The kernel reports the last close of the device as an error (EIO).
side.on('error', () => process.exit()).on('close', () => process.exit())
side.pipe(process.stdout)

/**
 * Passes keys to the terminal. Until the command reads, the stream above would retry without a pause and read nothing.
 */
function press(keys: Buffer, pressed: (error?: Error | null) => void): void {
  write(master, keys, (error, count) => {
    if (error?.code === 'EAGAIN') setTimeout(() => press(keys, pressed), retryMs)
    else if (error === null && count < keys.length) press(keys.subarray(count), pressed)
    else pressed(error)
  })
}

const keyboard = new Writable({ write: (keys: Buffer, _encoding, pressed) => press(keys, pressed) })
keyboard.on('error', () => process.exit())
// Follows the pace of the command: unread input stays with the client, not in this process.
process.stdin.on('end', () => process.exit()).pipe(keyboard)
process.on('disconnect', () => process.exit())
process.on('message', (message: { opened?: true; columns?: number; rows?: number }) => {
  if (message.opened === true) closeSync(slave)
  else resizePseudoterminal(master, message.columns ?? 80, message.rows ?? 24)
})
process.send?.(readlinkSync(`/proc/self/fd/${slave}`))
