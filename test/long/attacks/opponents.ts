import type { HostileServer, Tenant } from '../../harness/attacks/server.ts'
import { type Created, createdDatabase } from '../../harness/databases.ts'

const databaseOf = ({ client, project }: Tenant): Promise<Created> => createdDatabase(client, project)

/** Creates a database of the attacker and a database of the victim, and deletes both at the end. */
export async function opponents({ attacker, victim }: HostileServer) {
  const [own, foreign] = await Promise.all([databaseOf(attacker), databaseOf(victim)])
  return {
    own,
    foreign,
    async [Symbol.asyncDispose]() {
      await attacker.client.databases.delete({ params: { project_id: attacker.project, id: own.id } })
      await victim.client.databases.delete({ params: { project_id: victim.project, id: foreign.id } })
    },
  }
}
