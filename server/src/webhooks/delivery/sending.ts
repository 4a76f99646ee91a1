import type { ClientConfig } from 'pg'
import { listen } from '../../platform/database/notifications.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Outbound } from '../../platform/outbound.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import { changedChannel, dueChannel } from '../outbox.ts'
import { createDispatcher } from './dispatcher.ts'
import { createDueQueries } from './due.ts'
import { createRecorder } from './record.ts'
import { removeExcess, removeOld } from './retention.ts'
import { createSender } from './send.ts'

export interface SendingDependencies {
  readonly database: Database
  /** For the connection that listens for notifications. */
  readonly connection: ClientConfig
  readonly secrets: SecretBox
  readonly outbound: Outbound
  /** How long events and their deliveries are kept. */
  readonly retentionMs: number
  /** Returns how many deliveries an account may keep. */
  readonly mostDeliveries: (accountId: string) => Promise<number>
  readonly logger: Logger
}

export interface Sending {
  /** Looks at once for what is due. */
  wake(): void
  stop(): Promise<void>
}

const cleaningMs = 3_600_000

/** Sends deliveries as soon as they are due, and removes old ones. */
export function startSending(dependencies: SendingDependencies): Sending {
  const { database, connection, secrets, outbound, retentionMs, mostDeliveries, logger } = dependencies
  const sender = createSender({ outbound })
  const dispatcher = createDispatcher({
    due: createDueQueries({ database, secrets, logger }),
    recorder: createRecorder({ database, logger }),
    sender,
    logger,
  })
  const listener = listen({
    connection,
    logger,
    channels: { [dueChannel]: dispatcher.wake, [changedChannel]: dispatcher.forget },
    onListening: dispatcher.wakeAll,
  })
  const cleaning = startPeriodic({
    name: 'the removal of old webhook deliveries',
    everyMs: cleaningMs,
    work: async (signal) => {
      await removeOld(database, new Date(Date.now() - retentionMs), signal)
      await removeExcess(database, mostDeliveries, signal)
    },
    logger,
  })
  return {
    wake: dispatcher.wakeAll,
    async stop() {
      await Promise.all([listener.stop(), cleaning.stop()])
      await dispatcher.stop()
      await sender.close()
    },
  }
}
