import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { createReceiver, generateSecret } from '@fairlead/receiver'
import { type SignedWebhook, signWebhook } from '@fairlead/receiver/testing'
import { sign as octokitSign, verify as octokitVerify } from '@octokit/webhooks-methods'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { Webhook as SvixWebhook } from 'svix'
import { build } from 'vite'
import { temporaryDirectory } from '../harness/temporary.ts'
import type { BenchResult, Row, Run } from './row.ts'
import { median } from './statistics.ts'

const full = { warmUps: 5, rounds: 150 }
const brief: typeof full = { warmUps: 0, rounds: 1 }
/** Bytes of bodies that each contender handles in a round. */
const roundBytes = 2_000_000
const aim = 0.8

/** Handles one webhook, from its raw bytes to the parsed event. Throws when it is not genuine. */
type Contender = () => unknown

/** Contender → milliseconds per webhook in each round. */
type Times = ReadonlyMap<string, readonly number[]>

/** Compares the receiver with a bare minimum and with other libraries: the same body, in turns, in one process. */
export async function measureReceiver(run: Run): Promise<BenchResult> {
  const { rounds } = run.short ? brief : full
  const rows: Row[] = []
  const notes = [
    `receiver: medians of ${rounds} rounds of ${roundBytes / 1e6} MB in turns, processor time, Node ${process.version}. The body is a ` +
      'deployment.failed with fields of a newer server beside its own. The floor is HMAC with a ready KeyObject, ' +
      'timingSafeEqual, a fatal TextDecoder and JSON.parse; the receiver does the same and all its checks, validates ' +
      'and runs a handler.',
  ]
  const secret = generateSecret()
  // Both sizes share it, because an application has one receiver, too.
  const own = ownContender(secret, () => {})
  for (const size of [1024, 10_240]) {
    const webhook = signWebhook({ event: 'deployment.failed', data: dataOf(size), secret })
    const contenders = {
      floor: floorOf(secret, webhook),
      receiver: own.of(webhook),
      ...(await others(secret, webhook)),
    }
    const times = await race(contenders, Math.round(roundBytes / size), run)
    const kb = `${size / 1024} KB`
    const relative = ratio(times, 'floor', 'receiver')
    rows.push({
      name: `receiver: ${kb}`,
      measured: `${relative.toFixed(2)} of the floor`,
      aim: { text: `≥ ${aim}`, met: relative >= aim },
    })
    for (const name of times.keys()) {
      if (name === 'floor' || name === 'receiver') continue
      const ahead = ratio(times, name, 'receiver')
      rows.push({
        name: `receiver: ${kb}`,
        measured: `${ahead.toFixed(2)} × ${name}`,
        aim: { text: '> 1', met: ahead > 1 },
      })
    }
    const figures = [...times].map(([name, all]) => `${name} ${(1 / median(all)).toFixed(0)}k`)
    notes.push(`receiver: ${kb}, webhooks a second: ${figures.join(', ')}.`)
  }
  own.check()
  notes.push(
    `receiver: with an async handler, which has a deadline, ${(await measureAsync(secret, run)).toFixed(2)} of the floor at 1 KB.`,
  )
  notes.push(`receiver: its bundle with zod's part, minified: ${await bundleSize()}.`)
  return { rows, notes }
}

async function measureAsync(secret: string, run: Run): Promise<number> {
  const webhook = signWebhook({ event: 'deployment.failed', data: dataOf(1024), secret })
  const own = ownContender(secret, async () => {})
  const times = await race({ floor: floorOf(secret, webhook), receiver: own.of(webhook) }, roundBytes / 1000, run)
  own.check()
  return ratio(times, 'floor', 'receiver')
}

/** Returns the median ratio of the times of `one` to those of `another`. */
const ratio = (times: Times, one: string, another: string): number =>
  median((times.get(one) ?? []).map((time, round) => time / (times.get(another)?.[round] ?? Number.NaN)))

async function race(
  contenders: Readonly<Record<string, Contender>>,
  roundSize: number,
  { signal, short }: Run,
): Promise<Times> {
  const { warmUps, rounds } = short ? brief : full
  const entries = Object.entries(contenders)
  const times = new Map<string, number[]>(entries.map(([name]) => [name, []]))
  for (let round = -warmUps; round < rounds; round++) {
    // The order alternates, because each contender also pays for the garbage of the previous one.
    for (const [name, contender] of round % 2 === 0 ? entries : entries.toReversed()) {
      signal.throwIfAborted()
      const time = await timeOf(contender, roundSize)
      // Rounds with a negative number are for warming up.
      if (round >= 0) times.get(name)?.push(time)
    }
  }
  return times
}

// Measures processor time, because wall time would include other processes on the machine.
async function timeOf(contender: Contender, roundSize: number): Promise<number> {
  const begin = process.cpuUsage()
  for (let i = 0; i < roundSize; i++) {
    const result = contender()
    if (result instanceof Promise) await result
  }
  const { user, system } = process.cpuUsage(begin)
  return (user + system) / roundSize / 1000
}

function floorOf(secret: string, { headers, body }: SignedWebhook): Contender {
  const key = createSecretKey(Buffer.from(secret.slice('whsec_'.length), 'base64'))
  const decoder = new TextDecoder('utf-8', { fatal: true })
  return () => {
    const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.`
    const expected = Buffer.from(createHmac('sha256', key).update(content).update(body).digest('base64'))
    if (!timingSafeEqual(expected, Buffer.from(headers['webhook-signature'].slice(3)))) throw new Error('forged')
    return JSON.parse(decoder.decode(body))
  }
}

function ownContender(secret: string, handle: () => void | Promise<void>) {
  let received = 0
  let handled = 0
  const receiver = createReceiver({ secrets: [secret] })
  receiver.on('deployment.failed', ({ data }) => {
    if (data.failure.code) handled++
    return handle()
  })
  return {
    of:
      ({ headers, body }: SignedWebhook): Contender =>
      () => {
        received++
        return receiver.receive(headers, body)
      },
    /** Throws when not all webhooks were handled, because then the times would mean nothing. */
    check: () => {
      if (handled !== received) throw new Error(`the receiver handled ${handled} of ${received} webhooks`)
    },
  }
}

/** Returns other libraries by name. */
async function others(secret: string, { headers, body: bytes }: SignedWebhook): Promise<Record<string, Contender>> {
  const body = Buffer.from(bytes)
  const standard = new StandardWebhook(secret)
  const svix = new SvixWebhook(secret)
  const octokitSignature = await octokitSign(secret, body.toString())
  const stripe = new Stripe('sk_test_0')
  const stripeHeader = stripe.webhooks.generateTestHeaderString({
    payload: body.toString(),
    secret,
    timestamp: Number(headers['webhook-timestamp']),
  })
  return {
    standardwebhooks: () => standard.verify(body, headers),
    // svix and octokit do not parse the body themselves.
    svix: () => [svix.verify(body, headers), JSON.parse(body.toString())],
    octokit: async () => {
      const text = body.toString()
      if (!(await octokitVerify(secret, text, octokitSignature))) throw new Error('forged')
      return JSON.parse(text)
    },
    stripe: () => stripe.webhooks.constructEvent(body, stripeHeader, secret),
  }
}

/** Returns data for a body of about `size` bytes. */
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

/** Measures the package's size in an app's bundle, with all exports and with only `createReceiver`. */
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
