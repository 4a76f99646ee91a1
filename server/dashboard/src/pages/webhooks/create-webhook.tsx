import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '../../data/client.ts'
import { projectsQuery } from '../../data/queries.ts'
import { SelectField, TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { textOf } from '../../ui/forms/values.ts'

const eventChoices = [
  { value: '*', label: 'All events' },
  { value: 'deployment.*', label: 'All events of deployments' },
  { value: 'deployment.succeeded', label: 'Deployments that succeeded' },
  { value: 'deployment.failed', label: 'Deployments that failed' },
  { value: 'database.*', label: 'All events of databases' },
  { value: 'file.*', label: 'All events of files' },
  { value: 'certificate.*', label: 'All events of certificates' },
  { value: 'certificate.failed', label: 'Certificates that are in danger' },
] as const
type EventChoice = (typeof eventChoices)[number]['value']

interface CreateWebhookProps {
  readonly onCancel: () => void
  /** Called with the signing secret. */
  readonly onCreated: (secret: string) => void
}

export function CreateWebhook({ onCancel, onCreated }: CreateWebhookProps) {
  const queryClient = useQueryClient()
  const projects = useQuery(projectsQuery)
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const projectId = textOf(values, 'project_id')
      return api.webhooks.create({
        body: {
          url: textOf(values, 'url'),
          events: [textOf(values, 'events') as EventChoice],
          ...(projectId !== '' && { project_id: projectId }),
        },
      })
    },
    onSuccess: async ({ secret }) => {
      await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
      onCreated(secret)
    },
  })
  return (
    <Form mutation={create} submit="Create endpoint" onCancel={onCancel}>
      <TextField
        label="URL"
        name="url"
        type="url"
        autoComplete="off"
        placeholder="https://example.com/webhooks/fairlead"
      />
      <SelectField label="Events" name="events">
        {eventChoices.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </SelectField>
      <SelectField label="Project" name="project_id">
        <option value="">All projects of the account</option>
        {projects.data?.projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}
