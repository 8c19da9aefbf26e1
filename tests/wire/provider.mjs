// A certified OpenID provider with people who sign in under any name: node provider.mjs PORT AUDIENCE BACK
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const [port, audience, back] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'provider', alg: 'ES256', use: 'sig' }] },
  clients: [
    {
      client_id: 'desk',
      client_secret: 'desk-secret',
      redirect_uris: [back],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  scopes: ['openid', 'email', 'docs:read', 'docs:write'],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: false, // the address stands in the id token
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: !id.startsWith('unverified') }),
  }),
  cookies: { keys: ['a key of tests'] },
  features: {
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:onbe',
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'docs:read docs:write',
        audience,
        accessTokenFormat: 'jwt',
        accessTokenTTL: 600,
        jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
