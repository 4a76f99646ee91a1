import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '../../data/client.ts'
import { projectsQuery } from '../../data/queries.ts'
import { Dialog } from '../../ui/dialog.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Form, textOf } from '../../ui/form.tsx'
import { problemOf } from '../../ui/states.tsx'

const presets = [
  { value: 'deploy', label: 'Deploy: what a pipeline needs' },
  { value: 'read', label: 'Read only' },
  { value: 'full', label: 'Full: everything but keys' },
] as const
type Preset = (typeof presets)[number]['value']

const lives = [
  { days: '30', label: '30 days' },
  { days: '90', label: '90 days' },
  { days: '365', label: 'A year' },
  { days: '', label: 'Never' },
] as const

interface CreateKeyProps {
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
  /** Called with the key itself. */
  readonly onCreated: (key: string) => void
}

export function CreateKey({ open, onOpenChange, onCreated }: CreateKeyProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="New API key">
      <CreateKeyForm
        onCancel={() => onOpenChange(false)}
        onCreated={(key) => {
          onOpenChange(false)
          onCreated(key)
        }}
      />
    </Dialog>
  )
}

interface FormProps {
  readonly onCreated: (key: string) => void
  readonly onCancel?: () => void
}

export function CreateKeyForm({ onCreated, onCancel }: FormProps) {
  const queries = useQueryClient()
  const projects = useQuery(projectsQuery)
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const projectId = textOf(values, 'project')
      const days = textOf(values, 'expires')
      return api.apiKeys.create({
        body: {
          name: textOf(values, 'name'),
          preset: textOf(values, 'preset') as Preset,
          project_ids: projectId === '' ? null : [projectId],
          expires_in_days: days === '' ? null : Number(days),
        },
      })
    },
    onSuccess: async ({ key }) => {
      await queries.invalidateQueries({ queryKey: ['api-keys'] })
      onCreated(key)
    },
  })
  return (
    <Form
      submit="Create key"
      busy={create.isPending}
      error={create.error}
      fields={['name']}
      onSubmit={(values) => create.mutate(values)}
      onCancel={onCancel}
    >
      <TextField
        label="Name"
        name="name"
        autoComplete="off"
        hint="What will use it, such as GitHub Actions."
        problem={problemOf(create.error, 'name')}
      />
      <SelectField label="May do" name="preset" defaultValue="deploy">
        {presets.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </SelectField>
      <SelectField label="Projects" name="project" defaultValue="">
        <option value="">All projects of the account</option>
        {projects.data?.projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      <SelectField label="Expires" name="expires" defaultValue="90">
        {lives.map(({ days, label }) => (
          <option key={days} value={days}>
            {label}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}
