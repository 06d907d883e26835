"""Spanish and Portuguese."""

from __future__ import annotations

from typing import Final

SPANISH: Final = """\
USER: usuarias cliente clientes humano | la persona, una persona
ASSISTANT: asistente | el asistente, el agente, modelo de lenguaje
MODEL: tus usted
NOT: ningún ninguna nadie nada tampoco | no lo, no las, no los, no le, no se, no la, no me, no te, bajo ningún
MUST: deben obligatorio obligado obligada inmediatamente | hay que, tienes que, tiene que
TOOL: servidor servidores
OTHER: otros demás
EVERY: toda cualesquiera
USE: use usarla utiliza utilice llama llame llamarse invoca ejecuta ejecutar ejecute
ORDERS: órdenes instrucción
RULES: restricciones
EARLIER: anterior previo previa iniciales
IGNORE: ignore ignorar olvide olvidar omite desatiende descarta | no tengas en cuenta
READ: abra lea recopila recopile reúne busca busque obtén extrae consulta recoger localiza revisa mira examina
    consulte
PASS: coloca coloque pon ponga copia copie copiar añade añada agregue adjunta adjuntar inserta inserte entrega
    entrégalas entrégala pega escribe incluya facilita pasal* copial* adjuntal* ponl* incluyel* colocal* anadel*
    pegal* pase
SEND: mándala mándalo envíala envíalo envíalas transmite transmita remita sube suba reenviar enviarse mandar envial*
    mandal* remitel* subel* reenvial*
SECRET: credencial tokens secretos | clave privada, claves privadas, tarjeta de crédito, clave de acceso
CONTENTS: contenido contenidos
TELL: comentes comente cuéntale hables hable reveles revela avise avisar mencionarlo decirlo expliques
HIDE: oculte esconda encubre ocúltalo
QUIETLY: disimuladamente sigilosamente | a escondidas, en secreto, con disimulo, a espaldas
CONCEALED: | no debe enterarse, no debe saber, no tiene que saber, no tiene por qué, no necesita saber, sin que el,
    sin que se, sin decir, sin decirlo, sin mencionar, sin mencionarlo, no lo comentes, no lo menciones, no lo
    digas, no menciones, no le cuentes, no le digas, no hables de, queda entre nosotros, guárdalo para ti, sin
    avisar, sin informar, sin conocimiento, le cuentes este, que nadie sepa
TALK: conversaciones diálogo charla | historial de, mensajes anteriores, la conversación, todos los mensajes
INNER: | mensaje de sistema, mensaje del sistema, prompt del sistema, prompt de sistema, tus instrucciones, tus
    herramientas, herramientas disponibles, tu memoria, tu razonamiento, lista de tus, indicaciones del sistema
WHOLE: íntegro íntegra íntegramente textualmente literalmente entera entero | palabra por palabra, todo lo que
ELSEWHERE: | otras herramientas, demás herramientas, otra herramienta, otros servidores, otro servidor, esta sesión,
    otros proveedores
PRIVATE: contactos portapapeles nómina salario | datos personales, sus documentos, sus archivos, sus contactos, del
    banco, número de tarjeta, en el navegador, datos bancarios, bandeja de entrada, libreta de direcciones
CONSENT: | ya dio su, ya dio, ya ha dado, ya autorizó, ya aprobó, ya aceptó, ya ha autorizado, ya ha aceptado, ya
    consintió, lo ha autorizado, lo ha aprobado, dio su consentimiento, dado su consentimiento
UNASKED: | sin pedir, sin preguntar, sin preguntarle, sin confirmación, sin confirmar, sin consultar al, sin
    esperar, no preguntes, no pidas, aunque el usuario, aunque el cliente, diga lo que, sin autorización
OFFICE: normativa reglamento | por orden, departamento de seguridad, equipo de seguridad, política de la empresa,
    está obligado a, están obligados a, el administrador lo, el administrador ha, por motivos legales, por ley,
    política de seguridad
HEEDED: obedezca acata acate | sigue las instrucciones, sigue solo, ejecuta los, ejecuta las, haz lo que, haga lo
    que, solo valen, valen las
DEFIED: | ya no valen, ya no aplican, ya no son válidas, sin restricciones, ninguna regla, sin reglas
CAST: | ahora eres, tu verdadera, tu verdadero, tu misión
FROM_NOW: | a partir de ahora, de ahora en adelante, desde ahora, desde este momento
REACH: | en cada mensaje, cada mensaje, cada respuesta, cada petición, cada solicitud, cada llamada, cada vez,
    cualquier pregunta, cualquier petición, antes de responder, antes que a cualquier, antes que cualquier, antes de
    cualquier, antes de nada
BEFORE: | antes que
FIRST: primera
TURN: mensajes petición respuesta
UNFIT: fiables inseguras inseguros obsoletas obsoletos comprometidas peligrosas fiable
RIVAL: | no las uses, no los uses, nunca por otra, ninguna otra herramienta, en lugar de otr*, en lugar de las, en
    vez de otr*, en vez de las, no uses otra, no uses otras, nunca otras
HARMED: borra elimina cambia sustituye reemplaza desactiva sobrescribe transfiere borre elimine
CHANGE: sustituye cambie reemplace modifica
TARGET: cuenta beneficiario
GUARD: | controles de seguridad, control de seguridad, el registro, comprobaciones de seguridad
OFF: desactiva desactive deshabilita salta desactivar
LURED: | pide al usuario que, pida al usuario que, pídele al usuario, pide al usuario su, pide al cliente, vuelva a
    introducir, volver a introducir, introduzca de nuevo, su contraseña
BLIND: | copia oculta, copia ciega
PLAIN: devuelve opcional predeterminado defecto | por defecto, por ejemplo
EXAMPLE: | por ejemplo
LOOKED_FOR: detecta analiza comprueba revisa señala identifica verifica
OPENER: inicia conecta abre autentica
OWN_SERVER: | herramientas de este servidor, herramienta de este servidor
KEPT: cifrada cifrado cifradas ocultos enmascarados localmente | nunca sale, no se guarda, no se almacena*, nunca se
    guarda*, nunca se registra*, aparecen ocultos
LEAVE_ASKED: expresamente explícitamente | confirmación al usuario, aprobación explícita, consentimiento explícito,
    muestra siempre, borrador al usuario, muestra al usuario, avisa al usuario, informa al usuario, pregunta al
    usuario, solo si el usuario, cuando el usuario lo, confirma con el, si el usuario lo
HOST: | variables de entorno, variable de entorno, carpeta personal, directorio personal
TOLD: finge afirma aparenta | si te preguntan, si pregunta, si preguntan, responde que, di que, haz como si
OUTWARD: externo externos | nuestro servidor, nuestros servidores, canal público
REPLIED: | tu respuesta, tus respuestas, cada respuesta
SINK: | en el campo, en el parámetro, como parámetro
LOOPED: | una y otra vez, sin parar, en bucle
VARIABLES: | variables de entorno, variable de entorno
"""

PORTUGUESE: Final = """\
USER: usuários utilizador utilizadores cliente clientes pessoa
ASSISTANT: assistente | o assistente, o agente, modelo de linguagem
MODEL: sua seus
NOT: nenhum nenhuma ninguém nada | de modo algum, em hipótese alguma
MUST: devem obrigatório obrigatória obrigado imediatamente | é obrigado, precisa ser, tem que
TOOL: servidor servidores
OTHER: outro outros demais
EVERY: quaisquer tudo
USE: usada chame chamar chamada utilize execute executar
ORDERS: instrução ordens orientações
EARLIER: anterior prévias iniciais
IGNORE: ignore esqueça desconsidere desconsiderar despreze
READ: abra recolha colete reúna busque procure obtenha extraia recupere pegue verifique veja consulte
PASS: coloque anexe anexar copie copiar forneça acrescente preencha escreva cole incluir ponha passe inclua insira
    informe
SEND: envie mande repasse transmita encaminhar mandar enviá
SECRET: segredos credencial | chave de acesso, chave privada, cartão de crédito, chaves de acesso
CONTENTS: conteúdo conteúdos
TELL: comente avise fale diga mostre informe relate revele
HIDE: esconda oculte omita
QUIETLY: discretamente sorrateiramente | em segredo, às escondidas, na surdina, em silêncio
CONCEALED: | não precisa saber, não deve saber, não pode saber, não deve perceber, sem que o, sem avisar, sem
    informar, sem mencionar, sem dizer, sem contar, não comente, não conte, não mencione, não fale, não diga, fica
    entre nós, guarde para si, sem o conhecimento, algum conte esta
TALK: conversas diálogo bate-papo | histórico da, mensagens anteriores, a conversa, todas as mensagens
INNER: | prompt de sistema, prompt do sistema, mensagem de sistema, mensagem do sistema, suas instruções, suas
    ferramentas, ferramentas disponíveis, sua memória, seu raciocínio, lista das suas
WHOLE: íntegra inteiro integralmente literalmente | palavra por palavra, sem cortes, na íntegra, até aqui
ELSEWHERE: | outras ferramentas, outra ferramenta, outros servidores, outro servidor, nesta sessão, desta sessão,
    outros fornecedores, demais ferramentas
PRIVATE: contatos salário | dados pessoais, seus documentos, seus arquivos, seus contatos, do banco, número do
    cartão, no navegador, dados bancários, caixa de entrada, área de transferência
CONSENT: | já autorizou, já consentiu, já aprovou, já concordou, já deu, já aceitou, deu seu consentimento, foi
    previamente autorizado
UNASKED: | sem pedir, sem perguntar, sem confirmação, sem confirmar, sem esperar, não pergunte, não peça, mesmo que
    o usuário, mesmo que o cliente, ainda que o, não importa
OFFICE: regulamento | por determinação, equipe de segurança, departamento de segurança, política da empresa, é
    obrigado a, são obrigados a, o administrador já, o administrador autorizou, por ordem, por lei, por exigência
HEEDED: obedeça obedecer | siga apenas, siga as instruções, siga somente, execute os, execute as, faça o que, valem
    apenas
DEFIED: | não valem mais, não se aplicam mais, sem restrições, nenhuma regra, sem regras
CAST: | agora você é, você agora é, sua verdadeira, seu verdadeiro
FROM_NOW: doravante | a partir de agora, de agora em diante, daqui em diante
REACH: | em todas as mensagens, em cada mensagem, cada mensagem, cada resposta, cada pedido, cada chamada, toda vez,
    qualquer pergunta, antes de responder, antes de qualquer, antes de tudo
BEFORE: | antes que
FIRST: primeiro
TURN: mensagem mensagens pergunta pedido
UNFIT: comprometidas comprometidos inseguras inseguros obsoletas obsoletos confiáveis perigosas
RIVAL: | não use as ferramentas, não use outras, não use outra, nunca por outra, nenhuma outra ferramenta, em vez de
    outr*, em vez das, no lugar das
HARMED: apague exclua troque substitua desative sobrescreva transfira remova
CHANGE: troque substitua altere mude
TARGET: conta beneficiário
GUARD: | verificações de segurança, verificação de segurança, os registros, controles de segurança
OFF: desative desativar desligue pule
LURED: | peça ao usuário que, peça ao usuário para, peça ao usuário a, peça ao cliente, digite novamente, informe
    novamente, insira novamente, sua senha, a senha dele
BLIND: | cópia oculta
PLAIN: retorna devolve opcional padrão | por padrão, por exemplo
EXAMPLE: por exemplo
LOOKED_FOR: detecta analisa verifica aponta identifica sinaliza
OPENER: inicia conecta abre autentica
OWN_SERVER: | ferramentas deste servidor, ferramenta deste servidor
KEPT: mascarados mascaradas criptografada criptografado localmente cifrada | nunca sai, nunca é, não é armazenad*,
    nunca são
LEAVE_ASKED: explicitamente | confirmação ao usuário, sempre peça confirmação, aprovação explícita, consentimento
    explícito, mostre sempre, mostre ao usuário, rascunho ao usuário, avise o usuário, informe o usuário, pergunte
    ao usuário, somente se o usuário, confirme com o
HOST: | variáveis de ambiente, variável de ambiente, pasta pessoal
TOLD: finja afirme | se perguntarem, se ele perguntar, se o usuário perguntar, responda que, diga que
OUTWARD: externo externos | nosso servidor, nossos servidores, canal público
REPLIED: | sua resposta, suas respostas, cada resposta
SINK: | no campo, no parâmetro, ao parâmetro, como parâmetro
LOOPED: | sem parar, repetidas vezes, em loop
VARIABLES: | variáveis de ambiente, variável de ambiente
"""
