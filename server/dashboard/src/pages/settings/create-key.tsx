import type { BodyInput } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { projectsQuery } from '../../data/queries.ts'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { CheckList } from '../../ui/forms/checkbox-group.tsx'
import { SelectField, TextField } from '../../ui/forms/field.tsx'
import { Form, textOf } from '../../ui/forms/form.tsx'
import { Queried } from '../../ui/page/query-view.tsx'

const presets = [
  { value: 'deploy', label: 'Deploy: what a pipeline needs' },
  { value: 'read', label: 'Read only' },
  { value: 'full', label: 'Full: everything but keys' },
] as const
type Preset = (typeof presets)[number]['value']

const resources = ['projects', 'deployments', 'databases', 'storage', 'webhooks'] as const
type Scope = NonNullable<BodyInput<'apiKeys.create'>['scopes']>[number]
const scopeChoices = resources.flatMap((resource) => [
  { value: `${resource}:read` satisfies Scope, label: `${resource}: read` },
  { value: `${resource}:write` satisfies Scope, label: `${resource}: read and write` },
])
/** The choices that are made one by one. */
const ownScopes = 'own'
const someProjects = 'some'

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
  const [may, setMay] = useState<string>('deploy')
  const [where, setWhere] = useState('')
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const days = textOf(values, 'expires')
      return api.apiKeys.create({
        body: {
          name: textOf(values, 'name'),
          ...(may === ownScopes ? { scopes: values.getAll('scopes') as Scope[] } : { preset: may as Preset }),
          project_ids: where === someProjects ? values.getAll('project_ids').map(String) : null,
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
    <Form sending={create} submit="Create key" onCancel={onCancel}>
      <TextField label="Name" name="name" autoComplete="off" hint="What will use it, such as GitHub Actions." />
      <SelectField label="May do" value={may} onChange={({ target }) => setMay(target.value)}>
        {presets.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
        <option value={ownScopes}>What I choose</option>
      </SelectField>
      {may === ownScopes && <CheckList legend="Scopes" name="scopes" choices={scopeChoices} />}
      <SelectField label="Projects" value={where} onChange={({ target }) => setWhere(target.value)}>
        <option value="">All projects of the account</option>
        <option value={someProjects}>Only some</option>
      </SelectField>
      {where === someProjects && (
        <Queried query={projects} what="projects">
          {({ projects }) => (
            <CheckList
              legend="Only in"
              name="project_ids"
              choices={projects.map(({ id, name }) => ({ value: id, label: name }))}
            />
          )}
        </Queried>
      )}
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
