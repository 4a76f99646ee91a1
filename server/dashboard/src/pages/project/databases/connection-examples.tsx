import { CodeBlock } from '../../../ui/controls/copy-button.tsx'

/** How a database is used from where people are. */
export function WaysToConnect({ connectionString }: { readonly connectionString: string }) {
  const node = `import pg from 'pg'\n\nconst client = new pg.Client({ connectionString: process.env.DATABASE_URL })\nawait client.connect()`
  return (
    <div className="grid gap-2">
      <p className="font-medium">Ways to connect</p>
      <CodeBlock label="With psql" code={`psql '${connectionString}'`} />
      <CodeBlock label="As a variable of an app" code={`DATABASE_URL=${connectionString}`} />
      <CodeBlock label="From Node" code={node} />
    </div>
  )
}
