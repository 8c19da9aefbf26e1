// A certified OpenID provider with people who sign in under any name: node provider.mjs PORT AUDIENCE
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const [port, audience] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'provider', alg: 'ES256', use: 'sig' }] },
  clients: [
    {
      client_id: 'desk',
      client_secret: 'desk-secret',
      redirect_uris: ['https://desk.example/back'],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  scopes: ['openid', 'docs:read', 'docs:write'],
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
