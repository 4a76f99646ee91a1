import type { Socket } from 'node:net'
import { blobOf, type DeployKey, signatureOf, sshString } from './deploy-key.ts'

/*
 * The protocol between ssh and its agent (draft-ietf-sshm-ssh-agent): each message has its length in four bytes, its type in
 * one, and its content.
 */
const types = { failure: 5, listKeys: 11, keys: 12, sign: 13, signature: 14 } as const
/** More than any request of ssh has. */
const mostBytes = 64 * 1024

/** Answers ssh as an agent that has one key: it shows the public part, and signs. The private part never leaves this process. */
export function serveKey(client: Socket, key: DeployKey): void {
  let received = Buffer.alloc(0)
  client.on('error', () => client.destroy())
  client.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    while (received.length >= 4) {
      const length = received.readUInt32BE(0)
      if (length === 0 || length > mostBytes) return void client.destroy()
      if (received.length < 4 + length) return
      client.write(sshString(answerTo(received.subarray(4, 4 + length), key)))
      received = received.subarray(4 + length)
    }
  })
}

function answerTo(message: Buffer, key: DeployKey): Buffer {
  const blob = blobOf(key.publicKey)
  if (message[0] === types.listKeys) {
    return Buffer.concat([Buffer.of(types.keys, 0, 0, 0, 1), sshString(blob), sshString('')])
  }
  if (message[0] === types.sign) {
    const wanted = stringAt(message, 1)
    const data = wanted && stringAt(message, wanted.end)
    if (data !== undefined && wanted?.bytes.equals(blob)) {
      return Buffer.concat([Buffer.of(types.signature), sshString(signatureOf(key, data.bytes))])
    }
  }
  return Buffer.of(types.failure)
}

/** Reads a string of the ssh protocol; undefined when the message ends before it does. */
function stringAt(message: Buffer, at: number): { readonly bytes: Buffer; readonly end: number } | undefined {
  if (message.length < at + 4) return undefined
  const end = at + 4 + message.readUInt32BE(at)
  return end > message.length ? undefined : { bytes: message.subarray(at + 4, end), end }
}
