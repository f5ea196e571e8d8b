import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { AddressGuard } from '../../server/backends/web/address-guard.ts'
import { ConfigError } from '../../server/config/load.ts'
import type { Config } from '../../server/config/schema.ts'
import { HttpCredentials } from '../../server/executors/http-executor-credentials.ts'
import { HttpToolClient } from '../../server/executors/http-executor-client.ts'
import { HttpTools } from '../../server/executors/http-executor-tools.ts'
import type { ReportFailure } from '../../server/executors/http-executor-report.ts'
import { readMasterSecret } from '../../server/executors/http-executor-secret.ts'

declare module 'fastify' {
  interface FastifyInstance {
    httpTools: HttpTools
  }
}

/** What runs tools that are servers or parts of APIs (api.md §3): one client with its pool, the signing secret and the credentials. */
export const httpTools = fp(
  async (fastify: FastifyInstance, { httpTools: settings, home }: Pick<Config, 'httpTools' | 'home'>) => {
    const { allowAddresses, signingSecretFile, credentials, ...limits } = settings
    const guard = new AddressGuard({ allow: allowAddresses, ports: [], setting: 'httpTools.allowAddresses' })
    const proofs = new HttpCredentials(credentials)
    await proofs.check().catch((error: unknown) => {
      throw new ConfigError([(error as Error).message])
    })
    const master = await readMasterSecret(home, signingSecretFile)
    const client = new HttpToolClient({ ...limits, guard })
    const report: ReportFailure = (details) => fastify.log.info(details, 'a call of an HTTP tool got no answer')
    fastify.decorate('httpTools', new HttpTools({ client, credentials: proofs, master, report }))
    fastify.addHook('onClose', () => client.close())
  },
  { name: 'http-tools', fastify: '5.x' }
)
