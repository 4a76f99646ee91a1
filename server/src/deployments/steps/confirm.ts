import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PublicAddress } from '../../gateway/gateway.ts'
import { DeploymentError } from '../failure.ts'

const attempts = 5
const timeoutMs = 5_000

/**
 * Asks the gateway for the app as a visitor would and sees that the new release is what answers.
 * Rejects with a `DeploymentError` of the stage `switch` otherwise.
 */
export async function confirmRoute(
  listener: { readonly host: string; readonly port: number },
  address: PublicAddress,
  deploymentId: string,
  signal: AbortSignal,
): Promise<void> {
  let seen = 'no answer'
  for (let attempt = 1; attempt <= attempts; attempt++) {
    try {
      const answer = await ask(listener, address, signal)
      if (answer.deploymentId === deploymentId && answer.status < 500) return
      seen = `status ${answer.status} from ${answer.deploymentId ?? 'the gateway itself'}`
    } catch (error) {
      signal.throwIfAborted()
      seen = error instanceof Error ? error.message : String(error)
    }
    await sleep(100, undefined, { signal })
  }
  throw new DeploymentError(
    'switch',
    'address_not_answering',
    `The app is healthy, but its public address did not lead to it (${seen}). See that no other program holds the address.`,
  )
}

function ask(
  listener: { readonly host: string; readonly port: number },
  address: PublicAddress,
  signal: AbortSignal,
): Promise<{ status: number; deploymentId: string | undefined }> {
  const headers = 'hostname' in address ? { host: address.hostname } : {}
  return new Promise((done, fail) => {
    request(
      {
        ...listener,
        path: '/',
        agent: false,
        headers,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      },
      (response) => {
        const id = response.headers['x-fairlead-deployment']
        done({ status: response.statusCode ?? 0, deploymentId: typeof id === 'string' ? id : undefined })
        response.destroy()
      },
    )
      .on('error', fail)
      .end()
  })
}
