import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { unchangedRows, type VariableRow, variablesBody } from '../../../data/variable-rows.ts'
import { TextField } from '../../../ui/forms/field.tsx'
import { Form, textOf } from '../../../ui/forms/form.tsx'
import { VariablesEditor } from './variables-editor.tsx'

/** The values with which the form of a new release of an existing app starts. */
export interface Source {
  readonly name: string
  readonly git_url: string
  readonly branch: string | null
  /** The names of the variables of the app's latest release. */
  readonly env_var_names: readonly string[]
}

interface CreateDeploymentProps {
  readonly projectId: string
  readonly source?: Source
  readonly onCancel: () => void
}

export function CreateDeployment({ projectId, source, onCancel }: CreateDeploymentProps) {
  const [variables, setVariables] = useState<readonly VariableRow[]>(unchangedRows(source?.env_var_names ?? []))
  const create = useCreateDeployment(projectId, variables)
  return (
    <Form mutation={create} submit="Deploy" onCancel={onCancel}>
      <SourceFields source={source} />
      <VariablesEditor variables={variables} onChange={setVariables} />
    </Form>
  )
}

/** Returns the mutation that creates a deployment from the form's values and opens its page. */
function useCreateDeployment(projectId: string, variables: readonly VariableRow[]) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  return useMutation({
    mutationFn: (values: FormData) => {
      const [branch, token] = [textOf(values, 'branch'), textOf(values, 'git_token')]
      return api.deployments.create({
        params: { project_id: projectId },
        body: {
          name: textOf(values, 'name'),
          git_url: textOf(values, 'git_url'),
          ...(branch !== '' && { branch }),
          ...(token !== '' && { git_token: token }),
          ...variablesBody(variables),
        },
      })
    },
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      await navigate({
        to: '/projects/$projectId/deployments/$deploymentId',
        params: { projectId, deploymentId: id },
      })
    },
  })
}

function SourceFields({ source }: { readonly source: Source | undefined }) {
  return (
    <>
      <TextField
        label="App"
        name="name"
        defaultValue={source?.name}
        readOnly={source !== undefined}
        autoComplete="off"
        hint={source ? undefined : 'A second deployment of the same name is a new release of that app.'}
      />
      <TextField
        label="Git repository"
        name="git_url"
        defaultValue={source?.git_url}
        autoComplete="off"
        spellCheck={false}
        placeholder="https://github.com/you/app.git"
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Branch"
          name="branch"
          defaultValue={source?.branch ?? undefined}
          autoComplete="off"
          spellCheck={false}
          placeholder="the default branch"
        />
        <TextField
          label="Access token"
          name="git_token"
          type="password"
          autoComplete="off"
          placeholder="for private repositories"
          hint={source && 'The server does not store it: enter it again if the repository needs one.'}
        />
      </div>
    </>
  )
}
