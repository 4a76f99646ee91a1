import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { type VariableRow, variablesOf } from '../../../data/variable-rows.ts'
import { TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import type { Pair } from '../../../ui/forms/pair-row.tsx'
import { textOf } from '../../../ui/forms/values.ts'
import { type Source, SourceFields, sourceOf } from './source-fields.tsx'
import { VariablesEditor } from './variables-editor.tsx'
import { repeatedVolume } from './volumes-editor.tsx'

interface CreateDeploymentProps {
  readonly projectId: string
  readonly source?: Source
  readonly onCancel: () => void
}

export function CreateDeployment({ projectId, source, onCancel }: CreateDeploymentProps) {
  const [variables, setVariables] = useState<readonly VariableRow[]>([])
  const [volumes, setVolumes] = useState<readonly Pair[]>([])
  const create = useCreateDeployment(projectId, variables, (values) =>
    sourceOf(values, source?.source_id ?? null, volumes),
  )
  const deploy = (values: FormData) => {
    // The editor shows this error.
    if (values.has('image') && repeatedVolume(volumes) !== undefined) return
    create.mutate(values)
  }
  return (
    <Form mutation={{ ...create, mutate: deploy }} submit="Deploy" onCancel={onCancel}>
      <AppField source={source} />
      <SourceFields source={source} volumes={volumes} onVolumes={setVolumes} />
      <VariablesEditor variables={variables} onChange={setVariables} field="env_vars" />
      <p className="text-muted text-[13px]">The app keeps its variables, and gets these.</p>
    </Form>
  )
}

/** Returns the mutation that creates a deployment from the form's values and opens its page. */
function useCreateDeployment(
  projectId: string,
  variables: readonly VariableRow[],
  source: (values: FormData) => ReturnType<typeof sourceOf>,
) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  return useMutation({
    mutationFn: (values: FormData) =>
      api.deployments.create({
        params: { project_id: projectId },
        body: {
          name: textOf(values, 'name'),
          ...source(values),
          env_vars: variablesOf(variables),
          env_vars_for: 'app',
        },
      }),
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      await navigate({
        to: '/projects/$projectId/deployments/$deploymentId',
        params: { projectId, deploymentId: id },
      })
    },
  })
}

function AppField({ source }: { readonly source: Source | undefined }) {
  return (
    <TextField
      label="App"
      name="name"
      defaultValue={source?.name}
      readOnly={source !== undefined}
      autoComplete="off"
      hint={source ? undefined : 'A second deployment of the same name is a new release of that app.'}
    />
  )
}
