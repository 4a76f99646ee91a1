import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../data/client.ts'
import { appsQuery, databasesQuery } from '../../../data/queries.ts'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { SelectField, TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { textOf } from '../../../ui/forms/values.ts'

/** The page's side of the links. */
export interface Side {
  readonly kind: 'app' | 'database'
  readonly id: string
}

interface CreateLinkProps {
  readonly projectId: string
  readonly side: Side
  readonly onClose: () => void
}

/** Links a database of the project to an app. */
export function CreateLink({ projectId, side, onClose }: CreateLinkProps) {
  const create = useCreateLink(projectId, side, onClose)
  return (
    <Dialog
      open
      onClose={onClose}
      title={side.kind === 'app' ? 'Link a database' : 'Link an app'}
      description="Puts the connection string into a variable of the app. Nothing is deployed until you apply the change."
    >
      <Form mutation={create} submit="Link" onCancel={onClose}>
        {side.kind === 'app' ? <DatabaseField projectId={projectId} /> : <AppField projectId={projectId} />}
        <TextField
          label="Variable"
          name="variable"
          defaultValue="DATABASE_URL"
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
        />
      </Form>
    </Dialog>
  )
}

function useCreateLink(projectId: string, { kind, id }: Side, onDone: () => void) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: (values: FormData) =>
      api.links.create({
        params: { project_id: projectId },
        body: {
          app: kind === 'app' ? id : textOf(values, 'app'),
          database: kind === 'database' ? id : textOf(values, 'database'),
          variable: textOf(values, 'variable'),
        },
      }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      onDone()
    },
  })
}

function DatabaseField({ projectId }: { readonly projectId: string }) {
  const databases = useQuery(databasesQuery(projectId))
  return (
    <SelectField label="Database" name="database">
      {databases.data?.databases
        .filter(({ status }) => status !== 'deleting')
        .map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
    </SelectField>
  )
}

function AppField({ projectId }: { readonly projectId: string }) {
  const apps = useQuery(appsQuery(projectId))
  return (
    <SelectField label="App" name="app">
      {apps.data?.apps.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </SelectField>
  )
}
