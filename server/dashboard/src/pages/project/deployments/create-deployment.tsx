import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { knownRows, type VariableRow, variablesBody } from '../../../data/variables/variable-rows.ts'
import { TextField } from '../../../ui/forms/field.tsx'
import { Form, textOf } from '../../../ui/forms/form.tsx'
import { Variables } from './variables-editor.tsx'

/** What a further release of an app is made from. */
export interface Source {
  readonly name: string
  readonly git_url: string
  readonly branch: string | null
  /** Of the app's latest release. */
  readonly env_var_names: readonly string[]
}

interface CreateDeploymentProps {
  readonly projectId: string
  readonly source?: Source
  readonly onCancel: () => void
}

export function CreateDeployment({ projectId, source, onCancel }: CreateDeploymentProps) {
  const [variables, setVariables] = useState<readonly VariableRow[]>(knownRows(source?.env_var_names ?? []))
  const queries = useQueryClient()
  const navigate = useNavigate()
  const create = useMutation({
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
      await queries.invalidateQueries({ queryKey: ['projects', projectId] })
      await navigate({
        to: '/projects/$projectId/deployments/$deploymentId',
        params: { projectId, deploymentId: id },
      })
    },
  })
  return (
    <Form sending={create} submit="Deploy" onCancel={onCancel}>
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
          hint={source && 'Not kept by the server: give it again where one is needed.'}
        />
      </div>
      <Variables variables={variables} onChange={setVariables} />
    </Form>
  )
}
