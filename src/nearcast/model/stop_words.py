"""Words that say little by themselves, by language: short lists of articles, pronouns, prepositions and auxiliaries."""

from __future__ import annotations

STOP_WORDS = {
    "english": """
        a about above after again against all am an and any are as at be because been before being below between both
        but by can did do does doing down during each few for from further had has have having he her here hers him his
        how i if in into is it its just me more most my no nor not now of off on once only or other our ours out over
        own same she should so some such than that the their theirs them then there these they this those through to
        too under until up very was we were what when where which while who whom why will with would you your yours
    """,
    "french": """
        à au aux avec ce ces cette dans de des du elle elles en est et eux il ils je l la le les leur leurs lui ma mais
        me même mes moi mon ne nos notre nous on ont ou où par pas pour qu que qui sa sans se ses son sont sur ta te tes
        toi ton tu un une vos votre vous y
    """,
    "german": """
        aber als am an auch auf aus bei bin bis bist da damit dann das dass dem den der des die dir doch du durch ein
        eine einem einen einer eines er es für hat hatte ich ihr im in ist ja kann mein mich mir mit nach nicht noch nun
        nur ob oder ohne sehr sein seine sich sie sind so um und uns unter vom von vor war was weil wenn wer wie wir
        wird zu zum zur über
    """,
    "italian": """
        a ad ai al alla alle anche che chi ci come con da dal dalla dei del della delle di e ed era gli ha ho i il in io
        la le lei lo loro lui ma mi ne nei nel nella noi non o per più quando questa questo se si sono su sua sul suo
        ti tra tu un una uno voi è
    """,
    "portuguese": """
        a ao aos as até com como da das de do dos e ela elas ele eles em entre era essa esse esta este eu foi há isso já
        lhe mais mas me meu minha muito na nas no nos nossa nosso não o os ou para pela pelo por qual quando que quem se
        sem ser seu sua são também te tem um uma você
    """,
    "spanish": """
        a al ante como con contra cual cuando de del desde donde e el ella ellas ellos en entre era es esa ese esta este
        esto fue ha hay la las le les lo los me mi mis muy más ni no nos nosotros o os otra otro para pero por porque
        que quien se ser si sin sobre son su sus sí también te ti tu tus un una uno unos y ya yo él
    """,
}
