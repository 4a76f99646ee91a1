import { notFound } from '../../contract/errors.ts'
import type { DashboardHandlers } from '../../http/dashboard/call.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Attempts } from '../sign-in/attempts.ts'
import { type RecordEntry, userOf } from '../sign-in/record.ts'
import type { DeviceLogins } from './logins.ts'
import { readUserCode } from './user-code.ts'

export interface DeviceHandlersDependencies {
  readonly database: Database
  readonly logins: Pick<DeviceLogins, 'waiting' | 'decide'>
  readonly attempts: Pick<Attempts, 'deviceCode'>
  /** Throws `invalid_request` when the account has as many keys as it may. */
  readonly assertRoom: (transaction: Transaction, accountId: string) => Promise<void>
  readonly record: RecordEntry
}

type DeviceHandlers = Pick<DashboardHandlers, 'device.check' | 'device.approve' | 'device.deny'>

/** The handlers by which a signed-in user decides a login of a command. */
export function deviceHandlers(dependencies: DeviceHandlersDependencies): DeviceHandlers {
  const { logins, attempts } = dependencies
  return {
    'device.check': async (call) => {
      const giveBack = await attempts.deviceCode(call, call.signedIn.principal.actor.id)
      const login = await logins.waiting(call.body.user_code)
      if (login === undefined) throw notFound()
      await giveBack()
      return {
        user_code: readUserCode(call.body.user_code) ?? '',
        name: login.name,
        address: login.address,
        preset: 'full',
        created_at: login.created_at.toISOString(),
        expires_at: login.expires_at.toISOString(),
      }
    },
    'device.approve': decide(dependencies, 'device.approve'),
    'device.deny': decide(dependencies, 'device.deny'),
  }
}

function decide<Name extends 'device.approve' | 'device.deny'>(
  { database, logins, attempts, assertRoom, record }: DeviceHandlersDependencies,
  operation: Name,
): DeviceHandlers['device.approve'] {
  return async (call) => {
    const user = userOf(call.signedIn)
    const approved = operation === 'device.approve'
    const giveBack = await attempts.deviceCode(call, user.id)
    const decided = await database.transaction().execute(async (transaction) => {
      if (approved) await assertRoom(transaction, user.accountId)
      const login = await logins.decide(transaction, call.body.user_code, approved ? user.id : null)
      if (login !== undefined) await record(transaction, call.request, { operation, accountId: user.accountId, user })
      return login
    })
    if (decided === undefined) throw notFound()
    await giveBack()
    return undefined
  }
}
