import type { BodyInput } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { projectsQuery } from '../../data/queries.ts'
import { CheckboxGroup } from '../../ui/forms/checkbox-group.tsx'
import { SelectField, TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { textOf } from '../../ui/forms/values.ts'
import { QueryView } from '../../ui/page/query-view.tsx'

const presets = [
  { value: 'deploy', label: 'Deploy: for pipelines' },
  { value: 'read', label: 'Read only' },
  { value: 'full', label: 'Full: everything but keys' },
] as const
type Preset = (typeof presets)[number]['value']

const resources = ['projects', 'deployments', 'databases', 'storage', 'webhooks'] as const
type Scope = NonNullable<BodyInput<'apiKeys.create'>['scopes']>[number]
const scopeChoices: readonly { readonly value: Scope; readonly label: string }[] = [
  ...resources.flatMap((resource) => [
    { value: `${resource}:read` as const, label: `${resource}: read` },
    { value: `${resource}:write` as const, label: `${resource}: read and write` },
  ]),
  { value: 'runs:write', label: 'runs: write (sees secrets)' },
]
/** The option that shows the single scopes instead of a preset. */
const customScopes = 'custom'
const allProjects = 'all'
const someProjects = 'some'

const lifetimes = [
  { days: '30', label: '30 days' },
  { days: '90', label: '90 days' },
  { days: '365', label: 'A year' },
  { days: '', label: 'Never' },
] as const

interface CreateKeyProps {
  /** Called with the key itself. */
  readonly onCreated: (key: string) => void
  readonly onCancel: () => void
}

export function CreateKey({ onCreated, onCancel }: CreateKeyProps) {
  const queryClient = useQueryClient()
  const [permissions, setPermissions] = useState<string>('deploy')
  const [projects, setProjects] = useState<string>(allProjects)
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const days = textOf(values, 'expires')
      return api.apiKeys.create({
        body: {
          name: textOf(values, 'name'),
          ...(permissions === customScopes
            ? { scopes: values.getAll('scopes') as Scope[] }
            : { preset: permissions as Preset }),
          project_ids: projects === someProjects ? values.getAll('project_ids').map(String) : null,
          expires_in_days: days === '' ? null : Number(days),
        },
      })
    },
    onSuccess: async ({ key }) => {
      await queryClient.invalidateQueries({ queryKey: ['api-keys'] })
      onCreated(key)
    },
  })
  return (
    <Form mutation={create} submit="Create key" onCancel={onCancel}>
      <TextField
        label="Name"
        name="name"
        autoComplete="off"
        hint="The program that will use it, such as GitHub Actions."
      />
      <PermissionsFields value={permissions} onChange={setPermissions} />
      <ProjectFields value={projects} onChange={setProjects} />
      <SelectField label="Expires" name="expires" defaultValue="90">
        {lifetimes.map(({ days, label }) => (
          <option key={days} value={days}>
            {label}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}

interface ChoiceProps {
  readonly value: string
  readonly onChange: (value: string) => void
}

function PermissionsFields({ value, onChange }: ChoiceProps) {
  return (
    <>
      <SelectField label="Permissions" value={value} onChange={({ target }) => onChange(target.value)}>
        {presets.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
        <option value={customScopes}>Single scopes</option>
      </SelectField>
      {value === customScopes && <CheckboxGroup legend="Scopes" name="scopes" choices={scopeChoices} />}
    </>
  )
}

function ProjectFields({ value, onChange }: ChoiceProps) {
  const projects = useQuery(projectsQuery)
  return (
    <>
      <SelectField label="Projects" value={value} onChange={({ target }) => onChange(target.value)}>
        <option value={allProjects}>All projects of the account</option>
        <option value={someProjects}>Only some</option>
      </SelectField>
      {value === someProjects && (
        <QueryView query={projects} label="projects">
          {({ projects }) => (
            <CheckboxGroup
              legend="Only in"
              name="project_ids"
              choices={projects.map(({ id, name }) => ({ value: id, label: name }))}
            />
          )}
        </QueryView>
      )}
    </>
  )
}
