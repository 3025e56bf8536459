// Verifies a token as a handler in Node would: with jose, through the issuer's discovery document.
//
// Arguments: issuer, audience, token. Prints the claims as one JSON line, or exits 1 with the reason.

import {createRemoteJWKSet, jwtVerify} from 'jose';

const [issuer, audience, token] = process.argv.slice(2);
const answer = await fetch(`${issuer}/.well-known/openid-configuration`);
const discovered = await answer.json();
const keys = createRemoteJWKSet(new URL(discovered.jwks_uri));
const {payload} = await jwtVerify(token, keys, {issuer: discovered.issuer, audience, algorithms: ['RS256']});
console.log(JSON.stringify(payload));
