import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** The outcome of one upload: the stored file has the sent bytes, or an error describes the fault. */
export type UploadOutcome = { readonly whole: true } | { readonly whole: false; readonly reason: string }

/** The time in which the next server must start. */
const answerMs = 60_000

const chunk = randomBytes(1024 * 1024)

/** Uploads a file over about `ms` milliseconds. Resolves when it was answered or has failed, never rejects. */
export async function upload(options: {
  /** The address of a project's storage, without a trailing slash. */
  readonly storage: string
  readonly apiKey: string
  readonly bytes: number
  readonly ms: number
}): Promise<UploadOutcome> {
  try {
    const { status, body, sha256 } = await send(options)
    if (status !== 201) return { whole: false, reason: `it was answered with ${status}: ${body.slice(0, 200)}` }
    const { id } = JSON.parse(body) as { id: string }
    const file = await storedFile(`${options.storage}/files/${id}`, options.apiKey)
    return file.sha256 === sha256 ? { whole: true } : { whole: false, reason: 'the stored file has other bytes' }
  } catch (error) {
    return { whole: false, reason: error instanceof Error ? error.message : String(error) }
  }
}

/** Retries until a server answers: a stopping server finishes uploads before the next one starts. */
async function storedFile(url: string, apiKey: string): Promise<{ readonly sha256?: string }> {
  const deadline = performance.now() + answerMs
  for (;;) {
    const stored = await fetch(url, { headers: { authorization: `Bearer ${apiKey}` } }).catch((error: unknown) => {
      if (performance.now() > deadline) throw error
      return null
    })
    if (stored?.ok) return (await stored.json()) as { sha256?: string }
    if (performance.now() > deadline) throw new Error('no server shows the file')
    await sleep(100)
  }
}

async function send({ storage, apiKey, bytes, ms }: Parameters<typeof upload>[0]) {
  const boundary = 'continuity'
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\nContent-Type: application/octet-stream\r\n\r\n`
  const tail = `\r\n--${boundary}--\r\n`
  const hash = createHash('sha256')
  const outgoing = request(`${storage}/upload`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': head.length + bytes + tail.length,
    },
  })
  const answered = new Promise<{ status: number; body: string }>((done, fail) => {
    outgoing.on('error', fail)
    outgoing.on('response', async (response) => {
      const body = Buffer.concat(await response.toArray()).toString()
      done({ status: response.statusCode ?? 0, body })
    })
  })
  // An early failure is reported at the end; until then it must not count as unhandled.
  answered.catch(() => undefined)
  outgoing.write(head)
  const startedAt = performance.now()
  for (let sent = 0; sent < bytes && !outgoing.destroyed; sent += chunk.length) {
    hash.update(chunk)
    if (!outgoing.write(chunk)) await Promise.race([new Promise((done) => outgoing.once('drain', done)), answered])
    await sleep(Math.max(0, startedAt + ((sent + chunk.length) / bytes) * ms - performance.now()))
  }
  outgoing.end(tail)
  return { ...(await answered), sha256: hash.digest('hex') }
}
