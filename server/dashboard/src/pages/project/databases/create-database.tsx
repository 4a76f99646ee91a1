import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../data/client.ts'
import { SelectField, TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { textOf } from '../../../ui/forms/values.ts'
import { databaseLimits, PlanField } from '../../plans/plan-fields.tsx'

interface CreateDatabaseProps {
  readonly projectId: string
  readonly onCancel: () => void
  readonly onCreated: (connectionString: string) => void
}

export function CreateDatabase({ projectId, onCancel, onCreated }: CreateDatabaseProps) {
  const queryClient = useQueryClient()
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const [version, plan] = [textOf(values, 'version'), textOf(values, 'plan')]
      return api.databases.create({
        params: { project_id: projectId },
        body: { name: textOf(values, 'name'), ...(version !== '' && { version }), ...(plan !== '' && { plan }) },
      })
    },
    onSuccess: async ({ connection_string }) => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      onCreated(connection_string)
    },
  })
  return (
    <Form mutation={create} submit="Create database" onCancel={onCancel}>
      <TextField label="Name" name="name" autoComplete="off" />
      <div className="grid gap-4 sm:grid-cols-2">
        <SelectField label="PostgreSQL" name="version">
          <option value="">the newest</option>
          <option>18</option>
          <option>17</option>
          <option>16</option>
          <option>15</option>
        </SelectField>
        <PlanField plan="starter" limits={databaseLimits} />
      </div>
    </Form>
  )
}
