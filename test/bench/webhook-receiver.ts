import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { createReceiver, generateSecret } from '@fairlead/receiver'
import { signWebhook } from '@fairlead/receiver/testing'
import { sign as octokitSign, verify as octokitVerify } from '@octokit/webhooks-methods'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { Webhook as SvixWebhook } from 'svix'
import { build } from 'vite'
import { temporaryDirectory } from '../harness/temporary.ts'
import type { BenchResult, Row } from './row.ts'
import { median } from './statistics.ts'

const rounds = 60
/** Bytes of bodies that each takes in a round. */
const roundBytes = 2_000_000
const aim = 0.8

/** Takes one webhook from its raw bytes to the parsed event; throws when it is not genuine. */
type Contender = () => unknown

/** The receiver beside a bare floor and other libraries: the same body, in turns, in one process. */
export async function measureReceiver(signal: AbortSignal): Promise<BenchResult> {
  const rows: Row[] = []
  const notes = [
    `receiver: medians of ${rounds} rounds of ${roundBytes / 1e6} MB in turns, processor time, Node ${process.version}. The body is a ` +
      'deployment.failed with fields of a newer server beside its own. The floor is HMAC with a ready KeyObject, ' +
      'timingSafeEqual, a fatal TextDecoder and JSON.parse; the receiver does the same and all its checks, validates ' +
      'and runs a handler.',
  ]
  for (const size of [1024, 10_240]) {
    const { contenders, close } = await contendersFor(size)
    const times = await race(contenders, Math.round(roundBytes / size), signal)
    close()
    const floor = times.get('floor') ?? []
    const relative = (name: string) =>
      median((times.get(name) ?? []).map((time, round) => (floor[round] ?? Number.NaN) / time))
    const own = relative('receiver')
    const kb = `${size / 1024} KB`
    rows.push({
      name: `receiver: ${kb}`,
      measured: `${own.toFixed(2)} of the floor`,
      aim: { text: `≥ ${aim}`, met: own >= aim },
    })
    for (const name of contenders.keys()) {
      if (name === 'floor' || name.startsWith('receiver')) continue
      const ratio = median(
        (times.get(name) ?? []).map((time, round) => time / (times.get('receiver')?.[round] ?? Number.NaN)),
      )
      rows.push({
        name: `receiver: ${kb}`,
        measured: `${ratio.toFixed(2)} × ${name}`,
        aim: { text: '> 1', met: ratio > 1 },
      })
    }
    const figures = [...times].map(([name, all]) => `${name} ${(1 / median(all)).toFixed(0)}k`)
    notes.push(`receiver: ${kb}, webhooks a second: ${figures.join(', ')}.`)
  }
  notes.push(`receiver: its bundle with zod's part, minified: ${await bundleSize()}.`)
  return { rows, notes }
}

/** Milliseconds that each took for one webhook, round by round. */
async function race(contenders: ReadonlyMap<string, Contender>, roundSize: number, signal: AbortSignal) {
  const times = new Map<string, number[]>([...contenders.keys()].map((name) => [name, []]))
  for (let round = -5; round < rounds; round++) {
    for (const [name, contender] of contenders) {
      signal.throwIfAborted()
      const time = await timeOf(contender, roundSize)
      // The first rounds warm up.
      if (round >= 0) times.get(name)?.push(time)
    }
  }
  return times
}

// The processor's time, because another process on the machine would otherwise count against whoever's turn it is.
async function timeOf(contender: Contender, roundSize: number): Promise<number> {
  const begin = process.cpuUsage()
  for (let i = 0; i < roundSize; i++) {
    const result = contender()
    if (result instanceof Promise) await result
  }
  const { user, system } = process.cpuUsage(begin)
  return (user + system) / roundSize / 1000
}

async function contendersFor(size: number) {
  const secret = generateSecret()
  const { headers, body } = signWebhook({ event: 'deployment.failed', data: dataOf(size), secret })
  const timestamp = Number(headers['webhook-timestamp'])

  const key = createSecretKey(Buffer.from(secret.slice('whsec_'.length), 'base64'))
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const floor = () => {
    const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.`
    const expected = Buffer.from(createHmac('sha256', key).update(content).update(body).digest('base64'))
    if (!timingSafeEqual(expected, Buffer.from(headers['webhook-signature'].slice(3)))) throw new Error('forged')
    return JSON.parse(decoder.decode(body))
  }

  let handled = 0
  let asked = 0
  const receiver = createReceiver({ secrets: [secret] })
  receiver.on('deployment.failed', ({ data }) => void (data.failure.code && handled++))
  const patient = createReceiver({ secrets: [secret] })
  patient.on('deployment.failed', async ({ data }) => void (data.failure.code && handled++))
  const receive = (by: typeof receiver) => () => {
    asked++
    return by.receive(headers, body)
  }

  const standard = new StandardWebhook(secret)
  const svix = new SvixWebhook(secret)
  const octokitSignature = await octokitSign(secret, body.toString())
  const stripe = new Stripe('sk_test_0')
  const stripeHeader = stripe.webhooks.generateTestHeaderString({ payload: body.toString(), secret, timestamp })

  const contenders = new Map<string, Contender>([
    ['floor', floor],
    ['receiver', receive(receiver)],
    ['receiver with an async handler', receive(patient)],
    ['standardwebhooks', () => standard.verify(body, headers)],
    // Neither of the two parses.
    ['svix', () => [svix.verify(body, headers), JSON.parse(body.toString())]],
    [
      'octokit',
      async () => {
        const text = body.toString()
        if (!(await octokitVerify(secret, text, octokitSignature))) throw new Error('forged')
        return JSON.parse(text)
      },
    ],
    ['stripe', () => stripe.webhooks.constructEvent(body, stripeHeader, secret)],
  ])
  return {
    contenders,
    /** A figure of work that was not done would be worth nothing. */
    close: () => {
      if (handled !== asked) throw new Error(`the receiver handled ${handled} of ${asked} webhooks`)
    },
  }
}

/** Data that makes a body of about `size` bytes. */
function dataOf(size: number) {
  const data = {
    deployment_id: 'dep_01h455vb4pex5vsknk084sn02q',
    project_id: 'proj_01h455vb4pex5vsknk084sn02q',
    url: 'https://web-k2m9.apps.example.com',
    failure: { stage: 'build', code: 'exit_status', message: 'npm ci ended with status 1.' },
    steps: [] as object[],
  }
  while (JSON.stringify(data).length < size - 120) {
    data.steps.push({
      name: `step ${data.steps.length}`,
      ms: 1200 + data.steps.length,
      cached: data.steps.length % 2 === 0,
    })
  }
  return data
}

const index = fileURLToPath(import.meta.resolve('@fairlead/receiver'))

/** What an app's own bundle grows by, with everything exported and with `createReceiver` alone. */
async function bundleSize(): Promise<string> {
  await using directory = await temporaryDirectory()
  const sizes: string[] = []
  for (const [name, exported] of [
    ['everything', '*'],
    ['createReceiver alone', '{ createReceiver }'],
  ]) {
    const entry = join(directory.path, 'entry.js')
    await writeFile(entry, `export ${exported} from ${JSON.stringify(index)}\n`)
    const output = await build({
      configFile: false,
      logLevel: 'silent',
      build: {
        write: false,
        target: 'node20',
        minify: true,
        lib: { entry, formats: ['es'] },
        rollupOptions: { external: /^node:/ },
      },
    })
    const [first] = [output].flat()
    if (first === undefined || !('output' in first)) throw new Error('the bundler gave no bundle')
    const { code } = first.output[0]
    sizes.push(`${name} ${kilobytes(code.length)}, ${kilobytes(gzipSync(code).length)} gzipped`)
  }
  return sizes.join('; ')
}

const kilobytes = (bytes: number) => `${(bytes / 1024).toFixed(1)} KB`
