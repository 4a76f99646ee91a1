import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createDeployJob } from '../../../server/src/features/deployments/deploy-job.ts'
import { DeploymentError } from '../../../server/src/features/deployments/failure.ts'
import { createDeploymentLocks } from '../../../server/src/features/deployments/lock.ts'
import type { DeploymentRow } from '../../../server/src/features/deployments/tables.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'

const logger = pino({ level: 'silent' })
const secrets = { valuesOf: () => [] }
const running = new AbortController().signal

it('a job that is interrupted before it begins does not end an earlier generation’s instances', async () => {
  const locks = createDeploymentLocks()
  const happened: string[] = []
  const job = createDeployJob({
    locks,
    secrets,
    logger,
    store: {
      rows: { find: async () => undefined },
      jobs: {
        begin: async () => {
          happened.push('begun')
          if (happened.length > 1) return undefined
          // The job may begin before the request that added it interrupts the earlier generation.
          locks.interrupt({ id: 'dep_1', generation: 1 })
          return deploymentRow({ generation: 2, retained: true })
        },
        giveBack: async () => void happened.push('given back'),
      },
    },
    instances: {
      halt: async () => void happened.push('halted'),
      remove: async () => void happened.push('removed'),
      isMade: async () => true,
    },
    deploy: async () => void happened.push('deployed'),
    fail: async () => void happened.push('failed'),
  })
  await job('dep_1', running)
  expect(happened).toEqual(['begun', 'given back', 'begun'])
})

/**
 * Returns the code of the failure that a deployment gets when its job meets a server error, or the error's message when
 * the job is left to another attempt.
 */
async function afterServersError(columns: Partial<DeploymentRow>): Promise<string> {
  let code: string | undefined
  const job = createDeployJob({
    locks: createDeploymentLocks(),
    secrets,
    logger,
    store: {
      rows: { find: async () => undefined },
      jobs: { begin: async () => deploymentRow({ ...columns, retained: true }), giveBack: async () => undefined },
    },
    instances: { halt: async () => undefined, remove: async () => undefined, isMade: async () => true },
    deploy: () => Promise.reject(new Error('the connection to the database was lost')),
    fail: async (_, failure) => {
      code = failure.code
    },
  })
  return job('dep_1', running).then(
    () => code ?? 'no failure',
    (error: Error) => error.message,
  )
}

it('a job that a server error ended is attempted once more, then the deployment fails', async () => {
  expect(await afterServersError({ attempts: 1 })).toBe('the connection to the database was lost')
  expect(await afterServersError({ attempts: 2 })).toBe('server_error')
})

it('a job whose token may have been deleted is not attempted again', async () => {
  expect(await afterServersError({ attempts: 1, git_token: Buffer.of(1) })).toBe('server_error')
})

it('an earlier attempt’s remains are removed first, and nothing is searched for when there are none', async () => {
  const happened: string[] = []
  const jobWith = (isMade: boolean) =>
    createDeployJob({
      locks: createDeploymentLocks(),
      secrets,
      logger,
      store: {
        rows: { find: async () => undefined },
        jobs: { begin: async () => deploymentRow({ retained: false }), giveBack: async () => undefined },
      },
      instances: {
        halt: async () => void happened.push('halted'),
        remove: async () => void happened.push('removed'),
        isMade: async () => isMade,
      },
      deploy: async () => void happened.push('deployed'),
      fail: async () => void happened.push('failed'),
    })
  await jobWith(true)('dep_1', running)
  await jobWith(false)('dep_1', running)
  expect(happened).toEqual(['removed', 'deployed', 'deployed'])
})

it('a failure message masks the secrets from the job’s start and the present secrets', async () => {
  const failures: string[] = []
  const withSecret = (secret: string) => deploymentRow({ retained: true, variables: Buffer.from(secret) })
  const job = createDeployJob({
    locks: createDeploymentLocks(),
    secrets: { valuesOf: ({ variables }) => [variables.toString()] },
    logger,
    store: {
      rows: { find: async () => withSecret('the new password') },
      jobs: { begin: async () => withSecret('the old password'), giveBack: async () => undefined },
    },
    instances: { halt: async () => undefined, remove: async () => undefined, isMade: async () => true },
    deploy: () =>
      Promise.reject(new DeploymentError('build', 'build_failed', 'the old password, then the new password')),
    fail: async (_, { message }) => void failures.push(message),
  })
  await job('dep_1', running)
  expect(failures).toEqual(['***, then ***'])
})

it('a serving release stays when its job did not hear of the commit', async () => {
  const happened: string[] = []
  const job = createDeployJob({
    locks: createDeploymentLocks(),
    secrets,
    logger,
    store: {
      rows: { find: async () => deploymentRow({ status: 'running', retained: true }) },
      jobs: { begin: async () => deploymentRow(), giveBack: async () => undefined },
    },
    instances: {
      halt: async () => void happened.push('halted'),
      remove: async () => void happened.push('removed'),
      isMade: async () => false,
    },
    deploy: () => Promise.reject(new Error('the connection to the database was lost')),
    fail: async () => void happened.push('failed'),
  })
  // The queue retries, and finds nothing to do.
  await expect(job('dep_1', running)).rejects.toThrow('the connection to the database was lost')
  expect(happened).toEqual([])
})
