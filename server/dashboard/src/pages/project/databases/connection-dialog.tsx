import { CodeBlock } from '../../../ui/controls/code-block.tsx'
import { SecretDialog } from '../../../ui/dialogs/secret-dialog.tsx'

interface ConnectionDialogProps {
  readonly title: string
  /** `undefined` closes the dialog. */
  readonly connectionString: string | undefined
  readonly onDone: () => void
}

/** Shows a connection string once, with examples of its use. */
export function ConnectionDialog({ title, connectionString, onDone }: ConnectionDialogProps) {
  return (
    <SecretDialog title={title} secret={connectionString} onDone={onDone}>
      {connectionString !== undefined && <Examples connectionString={connectionString} />}
    </SecretDialog>
  )
}

const nodeExample = `import pg from 'pg'

const client = new pg.Client({ connectionString: process.env.DATABASE_URL })
await client.connect()`

function Examples({ connectionString }: { readonly connectionString: string }) {
  return (
    <div className="grid gap-2">
      <p className="font-medium">Ways to connect</p>
      <CodeBlock wrap label="With psql" code={`psql '${connectionString}'`} />
      <CodeBlock wrap label="As a variable of an app" code={`DATABASE_URL=${connectionString}`} />
      <CodeBlock label="From Node" code={nodeExample} />
      {isOnServer(connectionString) && <WithTls connectionString={connectionString} />}
    </div>
  )
}

const authorityFile = 'fairlead-databases-ca.pem'

/** Other databases are on the operator's PostgreSQL, whose certificate Fairlead does not know. */
const isOnServer = (connectionString: string): boolean => new URL(connectionString).hostname === '127.0.0.1'

function WithTls({ connectionString }: { readonly connectionString: string }) {
  const address = `${connectionString}?sslmode=verify-full&sslrootcert=${authorityFile}`
  return (
    <>
      <CodeBlock wrap label="With TLS" code={`psql '${address}'`} />
      <p>
        <a className="text-accent underline" href="/databases/ca.pem" download={authorityFile}>
          Download {authorityFile}
        </a>
        , the certificate by which clients verify the server.
      </p>
    </>
  )
}
