/* Tokens for SASL OAUTHBEARER: librdkafka asks when it needs one, and a Python function answers. */
#ifndef KAFKASPARK_OAUTH_H
#define KAFKASPARK_OAUTH_H

#include "client.h"

/* Lets librdkafka's background thread call `refresh`; before the client is created. */
void oauth_configure(rd_kafka_conf_t *conf);

/* Starts the background callbacks; after the client is created. False: a Python error is set. */
bool oauth_start(Client *client);

#endif
